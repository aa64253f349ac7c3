# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The CUDA runtime's own kernels: assembled for every architecture that programs
# may meet, and run on the emulated device. Tests with the label `environment`
# are started by ctest, which gives them one; test/run asks it to.

get_property(folder GLOBAL PROPERTY SHARDONNX_CUDA_PTX_FOLDER)
get_property(modules GLOBAL PROPERTY SHARDONNX_CUDA_MODULES)
get_property(strict GLOBAL PROPERTY SHARDONNX_STRICT_PTXAS)
# As the driver will compile the PTX: no spills, no local memory. The build has
# done so for sm_90 (runtime/cuda/kernels).
foreach(module IN LISTS modules)
  foreach(arch 80 89 100 120)
    add_test(NAME cuda_ptx_${module}_sm_${arch}
      COMMAND ${SHARDONNX_PTXAS} -arch=sm_${arch} ${strict}
              ${folder}/${module}.ptx
              -o ${CMAKE_CURRENT_BINARY_DIR}/${module}.sm_${arch})
    set_tests_properties(cuda_ptx_${module}_sm_${arch}
      PROPERTIES LABELS environment)
  endforeach()
endforeach()

# Kernels that move rows do so 16 bytes at a time; the others are named.
function(shardonnx_vector_test module scalar)
  set(readers none ${ARGN})
  list(GET readers -1 readers)
  add_test(NAME cuda_vectors_${module}
    COMMAND ${CMAKE_COMMAND} -DPTX=${folder}/${module}.ptx -DSCALAR=${scalar}
            -DREADERS=${readers}
            -P ${CMAKE_CURRENT_SOURCE_DIR}/CheckVectorAccess.cmake)
  set_tests_properties(cuda_vectors_${module} PROPERTIES LABELS environment)
endfunction()
shardonnx_vector_test(Copy "shx_k_copy_([1248]|elements)")
shardonnx_vector_test(CrossEntropy "shx_k_(sum_losses|loss_share.*)")
shardonnx_vector_test(Embedding none)
shardonnx_vector_test(EmbeddingGrad "shx_k_sort_.*")
shardonnx_vector_test(F8Cast none)
shardonnx_vector_test(GroupedGemm "shx_k_grouped_(.*odd.*|grad_f32_.*)")
shardonnx_vector_test(Slices
  "shx_k_(f8_steps|sum_doubles|norm_finish|loss_add)"
  "shx_k_(squares|(largest|cast_to_codes)_.*)")

add_executable(cuda_kernels_test
  cuda_kernels_copy_test.cpp cuda_kernels_cumsum_test.cpp
  cuda_kernels_depthwise_test.cpp
  cuda_kernels_embedding_test.cpp cuda_kernels_grouped_test.cpp
  cuda_kernels_index_test.cpp cuda_kernels_loss_test.cpp
  cuda_kernels_slices_test.cpp cuda_kernels_unpack_test.cpp
  cuda_kernels_vocabulary_test.cpp)
shardonnx_emulated_test(cuda_kernels_test)

add_executable(cuda_attention_test
  cuda_attention_test.cpp cuda_documents_test.cpp)
shardonnx_emulated_test(cuda_attention_test)

add_executable(cuda_gemm_test
  cuda_f8_test.cpp cuda_gemm_test.cpp cuda_newton_schulz_test.cpp)
shardonnx_emulated_test(cuda_gemm_test)

# cuDNN's plans of our attention, without a GPU and without a driver.
if(SHARDONNX_CUDNN_INCLUDE)
  add_library(cudnn_driver_stub SHARED cudnn_driver_stub.cpp)
  set(stub_folder ${PROJECT_BINARY_DIR}/lib/cudnn-driver-stub)
  set_target_properties(cudnn_driver_stub PROPERTIES
    OUTPUT_NAME cuda SUFFIX .so.1 LIBRARY_OUTPUT_DIRECTORY ${stub_folder})
  add_executable(cudnn_plans_test cudnn_plans_test.cpp)
  target_link_libraries(cudnn_plans_test
    PRIVATE GTest::gtest_main shardonnx_runtime_cuda
            shardonnx_warnings)
  add_dependencies(cudnn_plans_test cudnn_driver_stub)
  add_test(NAME cudnn_plans_test
    COMMAND ${CMAKE_COMMAND} -E env
            LD_LIBRARY_PATH=${stub_folder}:$ENV{LD_LIBRARY_PATH}
            $<TARGET_FILE:cudnn_plans_test> --gtest_filter=-*.TableOf*)
  set_tests_properties(cudnn_plans_test PROPERTIES LABELS environment)
endif()
