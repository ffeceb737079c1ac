// Boost.Fiber's part of the benchmarks: fibers on pooled stacks, on one OS thread.
// Usage: peer BENCH VARIANT N; prints one sample as JSON, after its result was checked.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include <boost/fiber/all.hpp>
#include <boost/fiber/pooled_fixedsize_stack.hpp>

using Clock = std::chrono::steady_clock;
using Count = unsigned long long;

// As large as Chanter's.
static boost::fibers::pooled_fixedsize_stack stacks(256 * 1024);

static void fail(std::string const& why) {
    std::fprintf(stderr, "%s\n", why.c_str());
    std::exit(1);
}

static double nanos_since(Clock::time_point start) {
    return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

// Creates, runs and joins one fiber after the other.
static double create(boost::fibers::launch launch, Count n) {
    Count sum = 0;
    auto start = Clock::now();
    for (Count value = 0; value < n; ++value) {
        boost::fibers::fiber(launch, std::allocator_arg, stacks, [&sum, value] { sum += value; }).join();
    }
    double nanos = nanos_since(start);
    if (sum != n * (n - 1) / 2) fail("the sum of results is wrong");
    return nanos;
}

// Two fibers give way to each other; an operation is a switch from one to the other.
static double yield(Count n) {
    Count turns = 0;
    auto body = [&turns, n] {
        for (Count turn = 0; turn < n / 2; ++turn) {
            ++turns;
            boost::this_fiber::yield();
        }
    };
    auto start = Clock::now();
    boost::fibers::fiber one(std::allocator_arg, stacks, body);
    boost::fibers::fiber other(std::allocator_arg, stacks, body);
    one.join();
    other.join();
    double nanos = nanos_since(start);
    if (turns != n / 2 * 2) fail("turns were lost");
    return nanos;
}

int main(int count, char** args) {
    if (count != 4) fail("usage: peer BENCH VARIANT N");
    std::string bench = args[1], variant = args[2];
    Count n = std::strtoull(args[3], nullptr, 10);
    double nanos = 0;
    if (bench == "fiber" && variant == "post") {
        nanos = create(boost::fibers::launch::post, n);
    } else if (bench == "fiber" && variant == "dispatch") {
        nanos = create(boost::fibers::launch::dispatch, n);
    } else if (bench == "fiber-switch" && variant == "yield") {
        nanos = yield(n);
    } else {
        fail("no bench " + bench + " " + variant);
    }
    std::printf("{\"ops\":%llu,\"nanos\":%f}\n", n, nanos);
}
