# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Read by cpack for each kind of package: archives have the toolchain inside.

list(GET CPACK_INSTALL_CMAKE_PROJECTS 0 build)
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
else()
  list(APPEND CPACK_INSTALL_CMAKE_PROJECTS
       "${build}" "${CPACK_PACKAGE_NAME}" toolchain /)
endif()
