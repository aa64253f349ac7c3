# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What is installed beside the programs and libraries that their own
# CMakeLists.txt name: headers of the runtime's C ABI, a CMake package, the
# shipped models, the tools in Python and the documentation. The folder can be
# moved afterwards.

include(CMakePackageConfigHelpers)

execute_process(COMMAND ${SHARDONNX_RUNTIME_CXX} -print-file-name=libgomp.a
  OUTPUT_VARIABLE gomp OUTPUT_STRIP_TRAILING_WHITESPACE)
get_filename_component(SHARDONNX_GOMP_DIR ${gomp} DIRECTORY)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Shardonnx)
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/ShardonnxConfig.cmake.in
  ${PROJECT_BINARY_DIR}/ShardonnxConfig.cmake
  INSTALL_DESTINATION ${package_dir})
# Before 1.0 another minor version is another interface.
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/ShardonnxConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ShardonnxConfig.cmake
              ${PROJECT_BINARY_DIR}/ShardonnxConfigVersion.cmake
        DESTINATION ${package_dir})

install(FILES runtime/include/shardonnx/runtime/ABI.h
              runtime/include/shardonnx/runtime/ConvolutionABI.h
              runtime/include/shardonnx/runtime/HostABI.h
              runtime/include/shardonnx/runtime/IndexABI.h
              runtime/include/shardonnx/runtime/MeshABI.h
              runtime/include/shardonnx/runtime/Run.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/shardonnx/runtime)

install(DIRECTORY models/ DESTINATION ${CMAKE_INSTALL_DATADIR}/shardonnx/models
        USE_SOURCE_PERMISSIONS
        PATTERN __pycache__ EXCLUDE)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR}
        FILES_MATCHING PATTERN "*.md" PATTERN "*.json")
install(FILES README.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
# What the documentation links to beside itself.
foreach(folder benchmarks models test/architectures test/conformance
        test/cuda-emulator test/random test/training test/training/modules)
  install(FILES ${folder}/README.md
          DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder})
endforeach()

set(tools_dir ${CMAKE_INSTALL_DATADIR}/shardonnx/tools)
install(PROGRAMS tools/checkpoint-convert tools/onnx-adapter tools/prepare-data
        DESTINATION ${tools_dir})
install(DIRECTORY tools/prepare_data DESTINATION ${tools_dir}
        PATTERN __pycache__ EXCLUDE)
