# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Tests of the CUDA runtime. Those that need a device run on the emulated one
# (test/cuda-emulator), which takes the place of the driver.

add_executable(cuda_plan_test cuda_plan_test.cpp)
target_link_libraries(cuda_plan_test
  PRIVATE GTest::gtest_main shardonnx_runtime_cuda shardonnx_warnings)
gtest_discover_tests(cuda_plan_test)

# The table programs, with kernels.
foreach(program table_cuda_f32 table_cuda_bf16 table_cuda_f32_replicated
        table_cuda_bf16_replicated table_cuda_fault)
  set(definitions)
  if(program MATCHES bf16)
    list(APPEND definitions TABLE_BF16)
  endif()
  if(program MATCHES replicated)
    list(APPEND definitions TABLE_REPLICATED)
  endif()
  if(program MATCHES bf16$)
    list(APPEND definitions TABLE_EARLY)
  endif()
  if(program MATCHES fault)
    list(APPEND definitions TABLE_FAULT)
  endif()
  list(TRANSFORM definitions PREPEND -D OUTPUT_VARIABLE options)
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/runtime/TableKernels.cu)
  set(ptx ${CMAKE_CURRENT_BINARY_DIR}/${program}.ptx)
  add_custom_command(
    OUTPUT ${ptx}
    COMMAND ${SHARDONNX_NVCC_CACHED} ${ptx} ${SHARDONNX_NVCC} -std=c++17 -ptx
            -arch=compute_80 ${options} -I${PROJECT_SOURCE_DIR}/runtime/include
            ${source}
    DEPENDS ${source} DEPFILE ${ptx}.d VERBATIM)
  add_executable(${program} runtime/TableDeviceProgram.cpp ${ptx})
  set_property(SOURCE runtime/TableDeviceProgram.cpp
    APPEND PROPERTY OBJECT_DEPENDS ${ptx})
  target_compile_definitions(${program}
    PRIVATE TABLE_PTX="${ptx}" ${definitions})
  target_link_libraries(${program}
    PRIVATE shardonnx_runtime_cuda shardonnx_warnings)
  list(APPEND cuda_programs ${program})
endforeach()

foreach(part runs ranks)
  add_executable(cuda_${part}_test cuda_${part}_test.cpp)
  target_compile_definitions(cuda_${part}_test PRIVATE
    SHX_TEST_PROGRAMS="$<TARGET_FILE_DIR:table_cuda_f32>"
    SHX_CUDA_EMULATOR="${SHARDONNX_CUDA_EMULATOR}")
  target_link_libraries(cuda_${part}_test
    PRIVATE runtime_test_support shardonnx_warnings nlohmann_json::nlohmann_json
            GTest::gtest_main)
  add_dependencies(cuda_${part}_test ${cuda_programs} cuda_emulator replay_calls
                   cuda_gemm_test)
  gtest_discover_tests(cuda_${part}_test PROPERTIES TIMEOUT 180)
endforeach()

add_executable(cuda_trace_test cuda_trace_test.cpp)
target_compile_definitions(cuda_trace_test PRIVATE
  SHX_TEST_PROGRAMS="$<TARGET_FILE_DIR:table_cuda_f32>"
  SHX_CUDA_EMULATOR="${SHARDONNX_CUDA_EMULATOR}"
  $<$<BOOL:${SHARDONNX_CUPTI_INCLUDE}>:SHX_TEST_CUPTI>)
target_link_libraries(cuda_trace_test
  PRIVATE GTest::gtest_main runtime_test_support shardonnx_runtime_cuda
          shardonnx_warnings nlohmann_json::nlohmann_json)
add_dependencies(cuda_trace_test table_cuda_f32 cuda_emulator)
gtest_discover_tests(cuda_trace_test PROPERTIES TIMEOUT 180)

add_executable(cuda_runtime_test cuda_runtime_test.cpp)
target_compile_definitions(cuda_runtime_test PRIVATE
  TEST_PTX="${CMAKE_CURRENT_BINARY_DIR}/table_cuda_f32.ptx")
add_dependencies(cuda_runtime_test table_cuda_f32)
shardonnx_emulated_test(cuda_runtime_test)
