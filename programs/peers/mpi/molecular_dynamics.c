/* Molecular dynamics by plain MPI: the same cells, lists and forces as programs/molecular_dynamics, but for the order of sums. Each
 * process has a run of cells, and of the chain's segments. In a step each tells all where its atoms are, and the forces that it
 * has found are added up where they act.
 *
 * molecular_dynamics INPUT OUTPUT: the first process prints the seconds, and writes places, speeds and energies. */
#include "plain.h"

#define KINDS 8
#define CUTOFF 9.0
#define SKIN 1.0
#define REACH (CUTOFF + SKIN)
#define WATER_REACH 1.1
static const double WATER_BOND[2] = {450.0, 0.9572}, WATER_ANGLE[2] = {55.0, 1.824218134};
enum { WATER_OXYGEN = 6, WATER_HYDROGEN = 7 };

typedef struct { double c12, c6, charges, force_there, energy_there; } mix;
typedef struct { uint32_t atoms[4]; double k, rest; } term;
VECTOR(terms, term)
typedef struct { terms bonds, angles, torsions, distant; } segment;
VECTOR(indices, uint16_t)
/* For each atom of a cell: who is near it in another. */
typedef struct { uint32_t *ends; indices others; } list;
/* A cell: its atoms, the chain's first. */
typedef struct { size_t begin, end, water; list lists[14]; } cell;
typedef struct { size_t cell; v3 shift; } beside;

static double side, dt;
static size_t chain_len, atoms_len, edge, cells_len, segments_len, steps;
static mix mixes[KINDS][KINDS];
static double mass_of[KINDS];
static uint8_t *chain_kinds;
static segment *segments;
static uint32_t **near, *near_len;
static cell *cells;
/* In the order of cells. */
static uint32_t *atoms;
static uint8_t *kinds;
static v3 *places, *speeds, *forces, *found, *listed;
/* Where the chain's atoms are. */
static size_t *chain_at;
static int me, all;
/* Cells, and the atoms of those, of each process. */
static size_t *cell_starts;
static int *counts, *starts;

static const int FORWARD[13][3] = {{1, 0, 0},  {-1, 1, 0}, {0, 1, 0}, {1, 1, 0},  {-1, -1, 1}, {0, -1, 1}, {1, -1, 1},
                                   {-1, 0, 1}, {0, 0, 1},  {1, 0, 1}, {-1, 1, 1}, {0, 1, 1},   {1, 1, 1}};

static beside forward(size_t from, int direction) {
    long at[3] = {(long)(from % edge), (long)(from / edge % edge), (long)(from / edge / edge)}, to[3];
    beside b;
    for (int axis = 0; axis < 3; axis++) {
        long there = at[axis] + FORWARD[direction][axis], around = (long)edge;
        long turns = there < 0 ? -1 : there >= around;
        to[axis] = there - turns * around;
        b.shift.x[axis] = side * (double)turns;
    }
    b.cell = ((size_t)to[2] * edge + (size_t)to[1]) * edge + (size_t)to[0];
    return b;
}

static v3 wrapped(v3 p) {
    for (int axis = 0; axis < 3; axis++) p.x[axis] -= side * floor(p.x[axis] / side);
    return p;
}

static size_t cell_of(v3 p) {
    size_t at[3];
    for (int axis = 0; axis < 3; axis++) {
        at[axis] = (size_t)(p.x[axis] / side * (double)edge);
        if (at[axis] >= edge) at[axis] = edge - 1;
    }
    return (at[2] * edge + at[1]) * edge + at[0];
}

static int are_near(uint32_t one, uint32_t other) {
    for (uint32_t at = 0; at < near_len[one]; at++)
        if (near[one][at] == other) return 1;
    return 0;
}

static void make_list(list *l, const cell *one, const cell *other, v3 shift) {
    int within = one == other;
    size_t others = other->end - other->begin, first_water = other->water - other->begin;
    const v3 *there = places + other->begin;
    v3 low = v(INFINITY, INFINITY, INFINITY), high = v(-INFINITY, -INFINITY, -INFINITY);
    for (size_t at = 0; at < others; at++)
        for (int axis = 0; axis < 3; axis++) {
            low.x[axis] = fmin(low.x[axis], there[at].x[axis]);
            high.x[axis] = fmax(high.x[axis], there[at].x[axis]);
        }
    l->ends = room(l->ends, (one->end - one->begin) * sizeof(uint32_t));
    l->others.len = 0;
    double far = (REACH + WATER_REACH) * (REACH + WATER_REACH);
    for (size_t at = 0; at < one->end - one->begin; at++) {
        v3 place = sub(places[one->begin + at], shift), off;
        for (int axis = 0; axis < 3; axis++)
            off.x[axis] = fmax(low.x[axis] - place.x[axis], 0) + fmax(place.x[axis] - high.x[axis], 0);
        if (!within && dot(off, off) > REACH * REACH) {
            l->ends[at] = (uint32_t)l->others.len;
            continue;
        }
        int is_chain = one->begin + at < one->water;
        for (size_t to = within ? at + 1 : 0; to < first_water; to++) {
            v3 between = sub(place, there[to]);
            if (is_chain && are_near(atoms[one->begin + at], atoms[other->begin + to])) continue;
            if (dot(between, between) < REACH * REACH) indices_push(&l->others, (uint16_t)to);
        }
        /* Behind those of its own water. */
        size_t from = !within || is_chain ? first_water : first_water + (at - first_water) / 3 * 3 + 3;
        for (size_t water = from; water < others; water += 3) {
            v3 between = sub(place, there[water]);
            if (dot(between, between) >= far) continue;
            for (size_t to = water; to < water + 3; to++) {
                between = sub(place, there[to]);
                if (dot(between, between) < REACH * REACH) indices_push(&l->others, (uint16_t)to);
            }
        }
        l->ends[at] = (uint32_t)l->others.len;
    }
}

/* Divides cells so that each process has about as many pairs, and says which atoms are whose. */
static void share_out(void) {
    double *pairs = room(NULL, cells_len * sizeof(double)), sum = 0, whole = 0;
    for (size_t at = 0; at < cells_len; at++) {
        double own = (double)(cells[at].end - cells[at].begin), ahead = 0;
        for (int direction = 0; direction < 13; direction++) {
            cell *to = &cells[forward(at, direction).cell];
            ahead += (double)(to->end - to->begin);
        }
        whole += pairs[at] = own * (0.5 * own + ahead);
    }
    size_t at = 0;
    for (int rank = 0; rank < all; rank++) {
        cell_starts[rank] = at;
        double until = whole * (rank + 1) / all;
        while (at < cells_len && (rank + 1 == all || sum + 0.5 * pairs[at] < until)) sum += pairs[at++];
    }
    cell_starts[all] = cells_len;
    free(pairs);
}

/* Assigns atoms to cells, and makes the lists of this process's. `of` and `fast`: by the numbers of atoms. */
static void assign(v3 *of, const v3 *fast, int is_first) {
    size_t *home = room(NULL, atoms_len * sizeof(size_t)), *at_in = calloc(cells_len + 1, sizeof(size_t));
    if (!at_in) fail("there is no memory");
    for (size_t atom = 0; atom < atoms_len; atom++) {
        size_t lead = atom < chain_len ? atom : chain_len + (atom - chain_len) / 3 * 3;
        if (lead == atom) {
            v3 by = sub(wrapped(of[atom]), of[atom]);
            of[atom] = wrapped(of[atom]);
            if (atom >= chain_len) {
                of[atom + 1] = add(of[atom + 1], by);
                of[atom + 2] = add(of[atom + 2], by);
            }
        }
        home[atom] = cell_of(of[lead]);
        at_in[home[atom] + 1]++;
    }
    for (size_t number = 0; number < cells_len; number++) {
        at_in[number + 1] += at_in[number];
        cells[number].begin = cells[number].water = at_in[number];
        cells[number].end = at_in[number + 1];
    }
    for (size_t atom = 0; atom < atoms_len; atom++) {
        size_t at = at_in[home[atom]]++;
        atoms[at] = (uint32_t)atom;
        places[at] = listed[at] = of[atom];
        speeds[at] = fast[atom];
        if (atom < chain_len) {
            kinds[at] = chain_kinds[atom];
            cells[home[atom]].water++;
            chain_at[atom] = at;
        } else {
            kinds[at] = (atom - chain_len) % 3 == 0 ? WATER_OXYGEN : WATER_HYDROGEN;
        }
    }
    free(home), free(at_in);
    if (is_first) share_out();
    for (int rank = 0; rank < all; rank++) {
        size_t begin = cell_starts[rank] < cells_len ? cells[cell_starts[rank]].begin : atoms_len;
        size_t end = cell_starts[rank + 1] < cells_len ? cells[cell_starts[rank + 1]].begin : atoms_len;
        starts[rank] = (int)(3 * begin);
        counts[rank] = (int)(3 * (end - begin));
    }
    for (size_t number = cell_starts[me]; number < cell_starts[me + 1]; number++) {
        make_list(&cells[number].lists[13], &cells[number], &cells[number], v(0, 0, 0));
        for (int direction = 0; direction < 13; direction++) {
            beside b = forward(number, direction);
            make_list(&cells[number].lists[direction], &cells[number], &cells[b.cell], b.shift);
        }
    }
}

/* The energy at a distance, and the force through it. */
static inline double at_distance(const mix *m, double square, double *force) {
    double inverse2 = 1 / square, inverse = sqrt(inverse2), distance = square * inverse;
    double i6 = inverse2 * inverse2 * inverse2, attraction = m->c6 * i6, repulsion = m->c12 * i6 * i6;
    double coulomb = m->charges * inverse;
    *force = (12 * repulsion - 6 * attraction + coulomb) * inverse2 - m->force_there * inverse;
    return repulsion - attraction + coulomb - m->energy_there + (distance - CUTOFF) * m->force_there;
}

static double act_list(const list *l, const cell *one, const cell *other, v3 shift) {
    const v3 *there = places + other->begin;
    const uint8_t *kinds2 = kinds + other->begin;
    v3 *found2 = found + other->begin;
    double energy = 0, force;
    uint32_t from = 0;
    for (size_t at = 0; at < one->end - one->begin; at++) {
        v3 place = sub(places[one->begin + at], shift), sum = v(0, 0, 0);
        const mix *of = mixes[kinds[one->begin + at]];
        for (; from < l->ends[at]; from++) {
            uint16_t to = l->others.at[from];
            v3 between = sub(place, there[to]);
            double square = dot(between, between);
            if (square < CUTOFF * CUTOFF) {
                energy += at_distance(&of[kinds2[to]], square, &force);
                between = mul(between, force);
                sum = add(sum, between);
                found2[to] = sub(found2[to], between);
            }
        }
        found[one->begin + at] = add(found[one->begin + at], sum);
    }
    return energy;
}

static double stretched(v3 between, double k, double rest, v3 *force) {
    double distance = length(between), off = distance - rest;
    *force = mul(between, -2 * k * off / distance);
    return k * off * off;
}

static double bent(v3 a, v3 b, double k, double rest, v3 *on_a, v3 *on_b) {
    double long_a = length(a), long_b = length(b), cosine = dot(a, b) / (long_a * long_b);
    cosine = fmin(fmax(cosine, -1), 1);
    double sine = fmax(sqrt(1 - cosine * cosine), 1e-6), off = acos(cosine) - rest, pull = 2 * k * off / sine;
    *on_a = mul(sub(mul(b, 1 / (long_a * long_b)), mul(a, cosine / (long_a * long_a))), pull);
    *on_b = mul(sub(mul(a, 1 / (long_a * long_b)), mul(b, cosine / (long_b * long_b))), pull);
    return k * off * off;
}

static double twisted(v3 b1, v3 b2, v3 b3, double height, v3 on[4]) {
    v3 m = cross(b1, b2), n = cross(b2, b3);
    double m2 = fmax(dot(m, m), 1e-12), n2 = fmax(dot(n, n), 1e-12), len = length(b2);
    double angle = atan2(dot(cross(m, n), b2) / len, dot(m, n)), slope = 2 * height * sin(2 * angle);
    on[0] = mul(m, slope * len / m2);
    on[3] = mul(n, -slope * len / n2);
    double s = dot(b1, b2) / (len * len), t = dot(b3, b2) / (len * len);
    v3 moved = sub(mul(on[3], t), mul(on[0], s));
    on[1] = sub(moved, on[0]);
    on[2] = sub(v(0, 0, 0), add(moved, on[3]));
    return height * (1 - cos(2 * angle));
}

static void on(size_t at, v3 force) { found[at] = add(found[at], force); }

static double act_water(size_t at) {
    v3 a = sub(places[at + 1], places[at]), b = sub(places[at + 2], places[at]), on_a, on_b, bent_a, bent_b;
    double energy = stretched(a, WATER_BOND[0], WATER_BOND[1], &on_a);
    energy += stretched(b, WATER_BOND[0], WATER_BOND[1], &on_b);
    energy += bent(a, b, WATER_ANGLE[0], WATER_ANGLE[1], &bent_a, &bent_b);
    on_a = add(on_a, bent_a), on_b = add(on_b, bent_b);
    on(at + 1, on_a), on(at + 2, on_b), on(at, sub(v(0, 0, 0), add(on_a, on_b)));
    return energy;
}

/* From one atom of the chain to another, the nearest image. */
static v3 between(uint32_t from, uint32_t to) {
    v3 d = sub(places[chain_at[to]], places[chain_at[from]]);
    for (int axis = 0; axis < 3; axis++) d.x[axis] -= side * round(d.x[axis] / side);
    return d;
}

static double act_segment(const segment *s) {
    double energy = 0, force;
    v3 one, other, four[4];
    for (size_t at = 0; at < s->bonds.len; at++) {
        const term *t = &s->bonds.at[at];
        energy += stretched(between(t->atoms[1], t->atoms[0]), t->k, t->rest, &one);
        on(chain_at[t->atoms[0]], one), on(chain_at[t->atoms[1]], mul(one, -1));
    }
    for (size_t at = 0; at < s->angles.len; at++) {
        const term *t = &s->angles.at[at];
        v3 a = between(t->atoms[1], t->atoms[0]), b = between(t->atoms[1], t->atoms[2]);
        energy += bent(a, b, t->k, t->rest, &one, &other);
        on(chain_at[t->atoms[0]], one), on(chain_at[t->atoms[2]], other);
        on(chain_at[t->atoms[1]], mul(add(one, other), -1));
    }
    for (size_t at = 0; at < s->torsions.len; at++) {
        const uint32_t *a = s->torsions.at[at].atoms;
        energy += twisted(between(a[0], a[1]), between(a[1], a[2]), between(a[2], a[3]), s->torsions.at[at].k, four);
        for (int part = 0; part < 4; part++) on(chain_at[a[part]], four[part]);
    }
    for (size_t at = 0; at < s->distant.len; at++) {
        const uint32_t *a = s->distant.at[at].atoms;
        v3 apart = between(a[1], a[0]);
        double square = dot(apart, apart);
        if (square >= CUTOFF * CUTOFF) continue;
        energy += 0.5 * at_distance(&mixes[chain_kinds[a[0]]][chain_kinds[a[1]]], square, &force);
        apart = mul(apart, 0.5 * force);
        on(chain_at[a[0]], apart), on(chain_at[a[1]], mul(apart, -1));
    }
    return energy;
}

/* The forces on this process's atoms; returns the energy that it has found. */
static double act(void) {
    double energy = 0;
    memset(found, 0, atoms_len * sizeof(v3));
    for (size_t number = cell_starts[me]; number < cell_starts[me + 1]; number++) {
        cell *own = &cells[number];
        energy += act_list(&own->lists[13], own, own, v(0, 0, 0));
        for (int direction = 0; direction < 13; direction++) {
            beside b = forward(number, direction);
            energy += act_list(&own->lists[direction], own, &cells[b.cell], b.shift);
        }
        for (size_t at = own->water; at < own->end; at += 3) energy += act_water(at);
    }
    size_t rank = (size_t)me, ranks = (size_t)all;
    for (size_t at = segments_len * rank / ranks; at < segments_len * (rank + 1) / ranks; at++)
        energy += act_segment(&segments[at]);
    MPI_Reduce_scatter(found, forces, counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return energy;
}

static size_t first(void) { return (size_t)starts[me] / 3; }
static size_t own(void) { return (size_t)counts[me] / 3; }

static void kick(void) {
    for (size_t at = 0; at < own(); at++) {
        v3 *speed = &speeds[first() + at];
        *speed = add(*speed, mul(forces[at], 0.5 * dt / mass_of[kinds[first() + at]]));
    }
}

static double kinetic(void) {
    double sum = 0;
    for (size_t at = first(); at < first() + own(); at++) sum += 0.5 * mass_of[kinds[at]] * dot(speeds[at], speeds[at]);
    return sum;
}

static void tell_all(v3 *of) {
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, of, counts, starts, MPI_DOUBLE, MPI_COMM_WORLD);
}

static void in_order(v3 *of, v3 *fast) {
    for (size_t at = 0; at < atoms_len; at++) of[atoms[at]] = places[at], fast[atoms[at]] = speeds[at];
}

static void step(v3 *of, v3 *fast) {
    double farthest = 0;
    kick();
    for (size_t at = first(); at < first() + own(); at++) {
        places[at] = add(places[at], mul(speeds[at], dt));
        v3 by = sub(places[at], listed[at]);
        farthest = fmax(farthest, dot(by, by));
    }
    MPI_Allreduce(MPI_IN_PLACE, &farthest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    tell_all(places);
    if (farthest > 0.25 * SKIN * SKIN) {
        tell_all(speeds);
        in_order(of, fast);
        assign(of, fast, 0);
    }
}

static void read_terms(terms *into, int members, int constants) {
    for (size_t left = count(); left > 0; left--) {
        term t = {{0}, 0, 0};
        for (int at = 0; at < members; at++) t.atoms[at] = (uint32_t)count();
        if (constants > 0) t.k = number();
        if (constants > 1) t.rest = number();
        terms_push(into, t);
    }
}

static void read_system(v3 **of, v3 **fast) {
    side = number(), dt = number(), steps = count();
    for (int kind = 0; kind < KINDS; kind++) mass_of[kind] = number();
    for (int at = 0; at < KINDS * KINDS; at++) {
        mix *m = &mixes[at / KINDS][at % KINDS];
        m->c12 = number(), m->c6 = number(), m->charges = number();
        m->force_there = number(), m->energy_there = number();
    }
    chain_len = count();
    chain_kinds = room(NULL, chain_len), near = room(NULL, chain_len * sizeof(*near));
    near_len = room(NULL, chain_len * sizeof(*near_len)), chain_at = room(NULL, chain_len * sizeof(*chain_at));
    for (size_t at = 0; at < chain_len; at++) {
        chain_kinds[at] = (uint8_t)count(), near_len[at] = (uint32_t)count();
        near[at] = room(NULL, near_len[at] * sizeof(uint32_t));
        for (uint32_t to = 0; to < near_len[at]; to++) near[at][to] = (uint32_t)count();
    }
    segments_len = count();
    segments = calloc(segments_len + 1, sizeof(segment));
    if (!segments) fail("there is no memory");
    for (segment *s = segments; s < segments + segments_len; s++) {
        read_terms(&s->bonds, 2, 2), read_terms(&s->angles, 3, 2);
        read_terms(&s->torsions, 4, 1), read_terms(&s->distant, 2, 0);
    }
    atoms_len = count();
    size_t bytes = atoms_len * sizeof(v3);
    v3 **rooms[] = {of, fast, &places, &speeds, &forces, &found, &listed};
    for (size_t at = 0; at < sizeof rooms / sizeof *rooms; at++) *rooms[at] = room(NULL, bytes);
    atoms = room(NULL, atoms_len * sizeof(uint32_t)), kinds = room(NULL, atoms_len);
    for (size_t at = 0; at < atoms_len; at++) (*of)[at] = place();
    for (size_t at = 0; at < atoms_len; at++) (*fast)[at] = place();
    edge = (size_t)(side / (REACH + 2 * WATER_REACH) + 1e-9);
    cells_len = edge * edge * edge;
    cells = calloc(cells_len, sizeof(cell));
    cell_starts = room(NULL, ((size_t)all + 1) * sizeof(size_t));
    counts = room(NULL, (size_t)all * sizeof(int)), starts = room(NULL, (size_t)all * sizeof(int));
    if (!cells) fail("there is no memory");
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &all);
    if (argc != 3) fail("molecular_dynamics INPUT OUTPUT");
    read_numbers(argv[1]);
    v3 *of, *fast;
    read_system(&of, &fast);
    double *energies = room(NULL, 2 * (steps + 1) * sizeof(double));
    MPI_Barrier(MPI_COMM_WORLD);
    double clock = MPI_Wtime();
    assign(of, fast, 1);
    energies[0] = act(), energies[1] = kinetic();
    for (size_t at = 1; at <= steps; at++) {
        step(of, fast);
        energies[2 * at] = act();
        kick();
        energies[2 * at + 1] = kinetic();
    }
    MPI_Allreduce(MPI_IN_PLACE, energies, (int)(2 * (steps + 1)), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    clock = MPI_Wtime() - clock;
    tell_all(speeds);
    if (me == 0) {
        in_order(of, fast);
        double *result = room(NULL, (6 * atoms_len + 2 * (steps + 1)) * sizeof(double));
        memcpy(result, of, atoms_len * sizeof(v3));
        memcpy(result + 3 * atoms_len, fast, atoms_len * sizeof(v3));
        memcpy(result + 6 * atoms_len, energies, 2 * (steps + 1) * sizeof(double));
        write_numbers(argv[2], result, 6 * atoms_len + 2 * (steps + 1));
        printf("%.9f\n", clock);
    }
    MPI_Finalize();
    return 0;
}
