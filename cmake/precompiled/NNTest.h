// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the tests of passes and dialects include.

#include "NN.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
