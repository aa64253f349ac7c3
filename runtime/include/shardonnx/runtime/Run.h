/* Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * For an executable of one's own around a program that `shardonnx compile
 * --emit=obj` has written: linked with the runtime, it trains by one call.
 */

#ifndef SHARDONNX_RUNTIME_RUN_H
#define SHARDONNX_RUNTIME_RUN_H

#ifdef __cplusplus
extern "C" {
#endif

/* All that the executable does which `shardonnx compile` links: argv[0] is its
 * name in messages, its options (--data, --steps and so on) follow, then a null
 * pointer. Returns the exit code. It is called once, before the process has
 * started threads. With --nproc each rank is this executable, started anew with
 * the same argv: `main` hands it on. The runtime's own `main` does nothing
 * else, and gives way to one of the executable.
 */
int shx_run(int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif /* SHARDONNX_RUNTIME_RUN_H */
