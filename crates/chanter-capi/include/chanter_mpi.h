/* The C interface of Chanter in programs that `mpirun` starts. Such a program is linked with `libchanter_c_mpi.a`, which
 * holds all of `libchanter_c.a`, and by the compiler of the MPI that the library was built with:
 *
 *   MPICC=mpicc cargo build --release --package chanter-capi-mpi
 *   mpicc program.c -I crates/chanter-capi/include target/release/libchanter_c_mpi.a -pthread -ldl -lm
 *   mpirun -n 4 ./a.out
 *
 * With `MPICC=none`, any C compiler links it. Then `chanter_init_mpi` opens an MPI of the standard ABI (5.0): the library that
 * the variable CHANTER_MPI_LIBRARY names, or `libmpi_abi.so.1` where the loader looks.
 *
 * A launcher may bind each process to one core (Open MPI does so for two processes). Its machine has one virtual processor
 * then. `--bind-to none` lets a process use all cores.
 */
#ifndef CHANTER_MPI_H
#define CHANTER_MPI_H

#include "chanter.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Like `chanter_init`. If `mpirun` has started this process, its job is that of `mpirun`: MPI carries messages between
 * nodes, and memory those on a node. All processes of the job call it, and each calls `chanter_finalize` at its end, which
 * finalizes MPI. The program itself calls no function of MPI. An exit with code 0 without `chanter_finalize` aborts the job
 * with code 1, as the exit is a failure (see `chanter_init`).
 *
 * Errors besides those of `chanter_init`: `ENOSYS` if there is no MPI, or `mpirun` is of another one than the library.
 * Standard error says the reason. The others wait for this process, so it should end then, with a code other than 0.
 * If this process does not find the others although MPI has begun, the whole job is aborted with code 101, and standard error
 * says why. `chanter_finalize` returns `EIO` if MPI fails at the end.
 */
int chanter_init_mpi(const chanter_config *config) CHANTER_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
