/* Hierarchical radiosity by plain MPI: the same links, divisions and sums as programs/radiosity, to the last bit. Each process
 * has all surfaces and refines the links of its own; what is to be divided, and how bright parts are, all tell all.
 *
 * radiosity INPUT OUTPUT: the first process prints the seconds, and writes how bright the elements of each surface are. */
#include "plain.h"

#define DEEPEST 24
typedef uint64_t code;
typedef struct { v3 at[4]; } quad;
typedef struct { quad quad; double area; uint32_t first; } element;
VECTOR(elements, element)
typedef struct { code to, from; uint32_t to_at, from_at, surface; double factor, spread; } link;
VECTOR(links, link)
typedef struct { uint64_t surface; code code; } asked;
VECTOR(askeds, asked)
typedef struct { v3 reflectance, emission; elements shape; v3 *light; links links; int owner; } surface;
typedef struct { uint32_t surface; code code; quad quad; double area, bright; } part;

static surface *surfaces;
static size_t surfaces_len;
static double share, smallest, most;
static askeds wanted;
static int me, all;

static v3 point(const quad *q, double s, double t) {
    v3 sum = add(mul(q->at[0], (1 - s) * (1 - t)), mul(q->at[1], s * (1 - t)));
    return add(add(sum, mul(q->at[2], s * t)), mul(q->at[3], (1 - s) * t));
}

static v3 diagonals(const quad *q) { return cross(sub(q->at[2], q->at[0]), sub(q->at[3], q->at[1])); }
static double area(const quad *q) { return 0.5 * length(diagonals(q)); }
static v3 normal(const quad *q) {
    v3 n = diagonals(q);
    return mul(n, 1 / length(n));
}

static void quarters(const quad *q, quad into[4]) {
    v3 m = point(q, 0.5, 0.5), a = point(q, 0.5, 0), b = point(q, 1, 0.5), c = point(q, 0.5, 1),
       d = point(q, 0, 0.5);
    into[0] = (quad){{q->at[0], a, m, d}};
    into[1] = (quad){{a, q->at[1], b, m}};
    into[2] = (quad){{m, b, q->at[2], c}};
    into[3] = (quad){{d, m, c, q->at[3]}};
}

/* How much of two see each other's front, if nothing is between them. */
enum facing { AWAY, PARTLY, WHOLLY };

static enum facing ahead(const quad *one, const quad *other) {
    v3 n = normal(one);
    double tolerance = 1e-6 * sqrt(area(one));
    int any = 0, each = 1;
    for (int at = 0; at < 4; at++) {
        double far = dot(sub(other->at[at], one->at[0]), n);
        any |= far > tolerance;
        each &= far > -tolerance;
    }
    return any ? (each ? WHOLLY : PARTLY) : AWAY;
}

static enum facing facing(const quad *one, const quad *other) {
    enum facing a = ahead(one, other), b = a == AWAY ? AWAY : ahead(other, one);
    return a < b ? a : b;
}

/* Möller and Trumbore's test: whether the ray meets the triangle between its ends. */
static int meets(v3 from, v3 along, v3 a, v3 b, v3 c, double *t) {
    v3 ab = sub(b, a), ac = sub(c, a), p = cross(along, ac);
    double det = dot(ab, p);
    if (fabs(det) < 1e-300) return 0;
    double inverse = 1 / det;
    v3 s = sub(from, a), q = cross(s, ab);
    double x = dot(s, p) * inverse, y = dot(along, q) * inverse;
    if (x < -1e-9 || y < -1e-9 || x + y > 1 + 1e-9) return 0;
    *t = dot(ac, q) * inverse;
    return 1;
}

static int stands_between(const quad *q, v3 from, v3 along) {
    double t;
    return (meets(from, along, q->at[0], q->at[1], q->at[2], &t) ||
            meets(from, along, q->at[0], q->at[2], q->at[3], &t)) &&
           t > 1e-6 && t < 1 - 1e-6;
}

/* Boxes around boxes around quadrilaterals. */
typedef struct { v3 low, high; uint32_t first, count; } node;
VECTOR(nodes, node)
static nodes boxes;
static quad *occluders;
static int axis_of_order;

static int by_middle(const void *one, const void *other) {
    double a = 0, b = 0;
    for (int at = 0; at < 4; at++) {
        a += ((const quad *)one)->at[at].x[axis_of_order];
        b += ((const quad *)other)->at[at].x[axis_of_order];
    }
    return (a > b) - (a < b);
}

static void build_boxes(size_t from, size_t to) {
    node box = {v(INFINITY, INFINITY, INFINITY), v(-INFINITY, -INFINITY, -INFINITY), (uint32_t)from,
                (uint32_t)(to - from)};
    for (size_t at = from; at < to; at++)
        for (int corner = 0; corner < 4; corner++)
            for (int axis = 0; axis < 3; axis++) {
                double x = occluders[at].at[corner].x[axis];
                box.low.x[axis] = fmin(box.low.x[axis], x);
                box.high.x[axis] = fmax(box.high.x[axis], x);
            }
    double margin = length(sub(box.high, box.low)) * 1e-9;
    box.low = sub(box.low, v(margin, margin, margin));
    box.high = add(box.high, v(margin, margin, margin));
    size_t at = boxes.len;
    nodes_push(&boxes, box);
    if (to - from <= 3) return;
    v3 size = sub(box.high, box.low);
    axis_of_order = size.x[0] > size.x[1] ? 0 : 1;
    if (size.x[2] > size.x[axis_of_order]) axis_of_order = 2;
    qsort(occluders + from, to - from, sizeof(quad), by_middle);
    size_t half = from + (to - from) / 2;
    build_boxes(from, half);
    boxes.at[at].first = (uint32_t)boxes.len;
    boxes.at[at].count = 0;
    build_boxes(half, to);
}

static int are_hidden(v3 from, v3 to) {
    v3 along = sub(to, from), inverse = v(1 / along.x[0], 1 / along.x[1], 1 / along.x[2]);
    uint32_t stack[64];
    int top = 1;
    stack[0] = 0;
    while (top > 0) {
        const node *box = &boxes.at[stack[--top]];
        double near = 0, far = INFINITY;
        for (int axis = 0; axis < 3; axis++) {
            double a = (box->low.x[axis] - from.x[axis]) * inverse.x[axis];
            double b = (box->high.x[axis] - from.x[axis]) * inverse.x[axis];
            /* What is no number (a ray within the plane of a side) changes nothing. */
            double less = a < b ? a : b, more = a > b ? a : b;
            if (less > near) near = less;
            if (more < far) far = more;
        }
        if (near > far) continue;
        if (box->count == 0) {
            uint32_t second = box->first;
            stack[top + 1] = (uint32_t)(box - boxes.at) + 1;
            stack[top] = second;
            top += 2;
            continue;
        }
        for (uint32_t at = box->first; at < box->first + box->count; at++)
            if (stands_between(&occluders[at], from, along)) return 1;
    }
    return 0;
}

static int depth(code c) { return (63 - __builtin_clzll(c)) / 2; }

static uint32_t find(const elements *shape, code c) {
    uint32_t at = 0;
    for (int level = depth(c) - 1; level >= 0 && shape->at[at].first; level--)
        at = shape->at[at].first + (c >> (2 * level) & 3);
    return at;
}

static void divide_part(elements *shape, code c) {
    uint32_t at = 0;
    for (int level = depth(c); level >= 0; level--) {
        if (!shape->at[at].first) {
            quad four[4];
            quarters(&shape->at[at].quad, four);
            shape->at[at].first = (uint32_t)shape->len;
            for (int part = 0; part < 4; part++)
                elements_push(shape, (element){four[part], area(&four[part]), 0});
        }
        if (level > 0) at = shape->at[at].first + (c >> (2 * level - 2) & 3);
    }
}

static double strongest(v3 c) { return fmax(fmax(c.x[0], c.x[1]), c.x[2]); }

/* The kernel between four points of one and four of another. */
typedef struct { double kernels[4][4], least, most, mean; } pairs;

static double kernel(v3 x, v3 nx, v3 y, v3 ny) {
    v3 between = sub(y, x);
    double cos_x = dot(between, nx), cos_y = -dot(between, ny);
    if (cos_x <= 0 || cos_y <= 0) return 0;
    double square = dot(between, between);
    return cos_x * cos_y / (M_PI * square * square);
}

static void samples(const quad *q, v3 into[4]) {
    into[0] = point(q, 0.25, 0.25);
    into[1] = point(q, 0.75, 0.25);
    into[2] = point(q, 0.75, 0.75);
    into[3] = point(q, 0.25, 0.75);
}

/* Four points of a part, and its normal. */
typedef struct { v3 points[4], normal; } face;

static face face_of(const quad *q) {
    face f;
    samples(q, f.points);
    f.normal = normal(q);
    return f;
}

static pairs pairs_of(const face *to, const face *from) {
    pairs p;
    double sum = 0;
    p.least = INFINITY;
    p.most = 0;
    for (int x = 0; x < 4; x++)
        for (int y = 0; y < 4; y++) {
            double k = kernel(to->points[x], to->normal, from->points[y], from->normal);
            p.kernels[x][y] = k;
            sum += k;
            if (k < p.least) p.least = k;
            if (k > p.most) p.most = k;
        }
    p.mean = sum / 16;
    return p;
}

static double fine(const quad *to, const quad *from, const pairs *p, int levels) {
    if (levels == 0 || p->most - p->least <= p->mean) return p->mean;
    quad four[4], others[4];
    face faces[4], other_faces[4];
    quarters(to, four);
    quarters(from, others);
    for (int x = 0; x < 4; x++) {
        faces[x] = face_of(&four[x]);
        other_faces[x] = face_of(&others[x]);
    }
    double sum = 0;
    for (int x = 0; x < 4; x++) {
        double of_one = 0;
        for (int y = 0; y < 4; y++) {
            pairs inner = pairs_of(&faces[x], &other_faces[y]);
            of_one += fine(&four[x], &others[y], &inner, levels - 1);
        }
        sum += of_one;
    }
    return sum / 16;
}

/* The most of the kernel between points near the corners of one and of another. */
static double most_near_corners(const quad *to, const quad *from) {
    static const double at[4][2] = {{1. / 16, 1. / 16}, {15. / 16, 1. / 16}, {15. / 16, 15. / 16}, {1. / 16, 15. / 16}};
    v3 n = normal(to), n2 = normal(from);
    double largest = 0;
    for (int x = 0; x < 4; x++)
        for (int y = 0; y < 4; y++)
            largest = fmax(largest, kernel(point(to, at[x][0], at[x][1]), n, point(from, at[y][0], at[y][1]), n2));
    return largest;
}

static int divide(part to, part from, links *into);

static void refine(part to, part from, links *into) {
    enum facing faces = facing(&to.quad, &from.quad);
    if (faces == AWAY) return;
    double exchange = to.area * from.area * from.bright;
    face one = face_of(&to.quad), other = face_of(&from.quad);
    pairs p = pairs_of(&one, &other);
    if (faces == PARTLY) p.most = fmax(p.most, most_near_corners(&to.quad, &from.quad));
    if ((p.most - p.least) * exchange > most && divide(to, from, into)) return;
    if (p.most == 0) return;
    int seen = 0;
    double mean = 0;
    for (int x = 0; x < 4; x++)
        for (int y = 0; y < 4; y++)
            if (p.kernels[x][y] == 0 || !are_hidden(one.points[x], other.points[y])) {
                seen++;
                mean += p.kernels[x][y] / 16;
            }
    double hidden = seen == 16 ? 0 : seen == 0 ? 0.1 * p.mean : p.mean;
    double spread = to.area * from.area * (p.most - p.least + hidden);
    if (spread * from.bright > most && divide(to, from, into)) return;
    double factor = from.area * (p.mean > 0 ? mean / p.mean : 1) * fine(&to.quad, &from.quad, &p, 2);
    links_push(into, (link){to.code, from.code, 0, 0, from.surface, factor, spread});
}

static part quarter_of(const part *of, const quad *q, int at) {
    const surface *s = &surfaces[of->surface];
    code c = of->code << 2 | (code)at;
    return (part){of->surface, c, *q, area(q), strongest(s->light[find(&s->shape, c)])};
}

static int divide(part to, part from, links *into) {
    int is_to = to.area >= from.area;
    const part *larger = is_to ? &to : &from;
    if (larger->area <= smallest || depth(larger->code) >= DEEPEST) return 0;
    askeds_push(&wanted, (asked){larger->surface, larger->code});
    quad four[4];
    quarters(&larger->quad, four);
    for (int at = 0; at < 4; at++) {
        part quarter = quarter_of(larger, &four[at], at);
        refine(is_to ? quarter : to, is_to ? from : quarter, into);
    }
    return 1;
}

static part part_of(uint32_t number, code c) {
    const surface *s = &surfaces[number];
    uint32_t at = find(&s->shape, c);
    return (part){number, c, s->shape.at[at].quad, s->shape.at[at].area, strongest(s->light[at])};
}

static void refine_surface(uint32_t number, int round) {
    links found = {0}, *old = &surfaces[number].links;
    for (uint32_t other = 0; round == 0 && other < surfaces_len; other++) {
        part to = part_of(number, 1), from = part_of(other, 1);
        if (other != number) refine(to, from, &found);
    }
    for (size_t at = 0; round > 0 && at < old->len; at++) {
        link *known = &old->at[at];
        double bright = strongest(surfaces[known->surface].light[known->from_at]);
        if (known->spread * bright <= most ||
            !divide(part_of(number, known->to), part_of(known->surface, known->from), &found))
            links_push(&found, *known);
    }
    free(old->at);
    *old = found;
}

static int by_code(const void *one, const void *other) {
    const asked *a = one, *b = other;
    if (a->surface != b->surface) return a->surface < b->surface ? -1 : 1;
    return (a->code > b->code) - (a->code < b->code);
}

/* All divide what anybody has asked for. */
static void divide_all(void) {
    int *counts = room(NULL, (size_t)all * sizeof(int)), *starts = room(NULL, (size_t)all * sizeof(int));
    int mine = (int)(2 * wanted.len), sum = 0;
    MPI_Allgather(&mine, 1, MPI_INT, counts, 1, MPI_INT, MPI_COMM_WORLD);
    for (int rank = 0; rank < all; rank++) {
        starts[rank] = sum;
        sum += counts[rank];
    }
    asked *each = room(NULL, (size_t)sum * sizeof(uint64_t));
    MPI_Allgatherv(wanted.at, mine, MPI_UINT64_T, each, counts, starts, MPI_UINT64_T, MPI_COMM_WORLD);
    size_t len = (size_t)sum / 2;
    qsort(each, len, sizeof(asked), by_code);
    for (size_t number = 0, at = 0; number < surfaces_len; number++) {
        surface *s = &surfaces[number];
        size_t before = s->shape.len;
        for (; at < len && each[at].surface == number; at++)
            if (at == 0 || by_code(&each[at - 1], &each[at])) divide_part(&s->shape, each[at].code);
        s->light = room(s->light, s->shape.len * sizeof(v3));
        for (size_t e = 0; e < s->shape.len; e++) {
            uint32_t first = s->shape.at[e].first;
            for (uint32_t child = first; first >= before && child < first + 4; child++) s->light[child] = s->light[e];
        }
    }
    wanted.len = 0;
    free(each), free(counts), free(starts);
}

/* The light that comes to a surface, and how bright it is then. */
static void shine(const surface *s, v3 *light) {
    size_t len = s->shape.len;
    const element *e = s->shape.at;
    v3 *came = calloc(len, sizeof(v3));
    if (!came) fail("there is no memory");
    for (size_t at = 0; at < s->links.len; at++) {
        const link *l = &s->links.at[at];
        came[l->to_at] = add(came[l->to_at], mul(surfaces[l->surface].light[l->from_at], l->factor));
    }
    for (size_t at = 0; at < len; at++)
        for (uint32_t part = e[at].first; e[at].first && part < e[at].first + 4; part++)
            came[part] = add(came[part], came[at]);
    for (size_t at = len; at-- > 0;) {
        if (!e[at].first) {
            for (int c = 0; c < 3; c++)
                light[at].x[c] = s->emission.x[c] + came[at].x[c] * s->reflectance.x[c];
            continue;
        }
        double sum = 0;
        v3 bright = v(0, 0, 0);
        for (uint32_t part = e[at].first; part < e[at].first + 4; part++) sum += e[part].area;
        for (uint32_t part = e[at].first; part < e[at].first + 4; part++)
            bright = add(bright, mul(light[part], e[part].area));
        light[at] = mul(bright, 1 / sum);
    }
    free(came);
}

/* Light is passed on so many times. Surfaces lie in one buffer, those of each process together. */
static void bounce(int bounces) {
    int *counts = calloc((size_t)all, sizeof(int)), *starts = calloc((size_t)all, sizeof(int));
    size_t *begins = room(NULL, surfaces_len * sizeof(size_t)), sum = 0;
    if (!counts || !starts) fail("there is no memory");
    for (int rank = 0; rank < all; rank++) {
        starts[rank] = (int)(3 * sum);
        for (size_t at = 0; at < surfaces_len; at++)
            if (surfaces[at].owner == rank) {
                begins[at] = sum;
                sum += surfaces[at].shape.len;
            }
        counts[rank] = (int)(3 * sum) - starts[rank];
    }
    v3 *buffer = room(NULL, sum * sizeof(v3));
    for (int times = 0; times < bounces; times++) {
        for (size_t at = 0; at < surfaces_len; at++)
            if (surfaces[at].owner == me) shine(&surfaces[at], buffer + begins[at]);
        MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buffer, counts, starts, MPI_DOUBLE, MPI_COMM_WORLD);
        for (size_t at = 0; at < surfaces_len; at++)
            memcpy(surfaces[at].light, buffer + begins[at], surfaces[at].shape.len * sizeof(v3));
    }
    free(buffer), free(begins), free(counts), free(starts);
}

/* The largest first, each to who has least. */
static void share_out(void) {
    double *has = calloc((size_t)all, sizeof(double));
    if (!has) fail("there is no memory");
    for (size_t done = 0; done < surfaces_len; done++) {
        surface *largest = NULL;
        for (size_t at = 0; at < surfaces_len; at++)
            if (surfaces[at].owner < 0 && (!largest || surfaces[at].shape.at[0].area > largest->shape.at[0].area))
                largest = &surfaces[at];
        int least = 0;
        for (int rank = 1; rank < all; rank++)
            if (has[rank] < has[least]) least = rank;
        has[least] += largest->shape.at[0].area;
        largest->owner = least;
    }
    free(has);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &all);
    if (argc != 3) fail("radiosity INPUT OUTPUT");
    read_numbers(argv[1]);
    surfaces_len = count();
    share = number();
    smallest = number();
    int rounds = (int)count(), bounces = (int)count();
    surfaces = calloc(surfaces_len, sizeof(surface));
    occluders = room(NULL, surfaces_len * sizeof(quad));
    if (!surfaces) fail("there is no memory");
    v3 power = v(0, 0, 0);
    for (size_t at = 0; at < surfaces_len; at++) {
        surface *s = &surfaces[at];
        quad q;
        for (int corner = 0; corner < 4; corner++) q.at[corner] = place();
        s->reflectance = place();
        s->emission = place();
        s->owner = -1;
        elements_push(&s->shape, (element){q, area(&q), 0});
        s->light = room(NULL, sizeof(v3));
        s->light[0] = s->emission;
        power = add(power, mul(s->emission, area(&q)));
        occluders[at] = q;
    }
    most = share * strongest(power);
    MPI_Barrier(MPI_COMM_WORLD);
    double clock = MPI_Wtime();
    build_boxes(0, surfaces_len);
    share_out();
    for (int round = 0; round < rounds; round++) {
        for (uint32_t at = 0; at < surfaces_len; at++)
            if (surfaces[at].owner == me) refine_surface(at, round);
        divide_all();
        for (size_t at = 0; at < surfaces_len; at++)
            for (size_t l = 0; l < surfaces[at].links.len; l++) {
                link *it = &surfaces[at].links.at[l];
                it->to_at = find(&surfaces[at].shape, it->to);
                it->from_at = find(&surfaces[it->surface].shape, it->from);
            }
        bounce(bounces);
    }
    clock = MPI_Wtime() - clock;
    if (me == 0) {
        size_t len = 0;
        for (size_t at = 0; at < surfaces_len; at++) len += surfaces[at].shape.len;
        v3 *light = room(NULL, len * sizeof(v3));
        len = 0;
        for (size_t at = 0; at < surfaces_len; at++) {
            memcpy(light + len, surfaces[at].light, surfaces[at].shape.len * sizeof(v3));
            len += surfaces[at].shape.len;
        }
        write_numbers(argv[2], light->x, 3 * len);
        printf("%.9f\n", clock);
    }
    MPI_Finalize();
    return 0;
}
