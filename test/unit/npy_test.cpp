// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Headers of .npy files: what is written is read back, what NumPy writes is
// understood, and what is damaged is refused.

#include "shardonnx/runtime/Npy.h"
#include <gtest/gtest.h>

using namespace shardonnx;

namespace {

std::string withDictionary(const std::string &text, int version = 1) {
  std::string file("\x93NUMPY");
  file += static_cast<char>(version);
  file += '\0';
  uint64_t size = text.size();
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    file += static_cast<char>(size >> (8 * i));
  return file + text;
}

std::string whyNot(const std::string &file) {
  std::string error;
  EXPECT_FALSE(parseNpyHeader(file, error));
  return error;
}

TEST(Npy, ReadsWhatItWrites) {
  for (const std::vector<int64_t> &shape :
       {std::vector<int64_t>{}, {7}, {2, 0, 3}, {1, 2, 3, 4, 5}}) {
    std::string header = makeNpyHeader("<f4", shape), error;
    EXPECT_EQ(header.size() % 64, 0u);
    EXPECT_EQ(header.back(), '\n');
    auto read = parseNpyHeader(header + "data", error);
    ASSERT_TRUE(read) << error;
    EXPECT_EQ(read->descr, "<f4");
    EXPECT_EQ(read->shape, shape);
    EXPECT_FALSE(read->fortranOrder);
    EXPECT_EQ(read->length, static_cast<int64_t>(header.size()));
  }
}

TEST(Npy, ReadsLongHeadersAndFortranOrder) {
  std::string error;
  auto read = parseNpyHeader(
      withDictionary("{'shape': (3, 5), 'fortran_order': True, 'descr': '|b1'}",
                     2),
      error);
  ASSERT_TRUE(read) << error;
  EXPECT_EQ(read->descr, "|b1");
  EXPECT_EQ(read->shape, (std::vector<int64_t>{3, 5}));
  EXPECT_TRUE(read->fortranOrder);
}

TEST(Npy, RefusesWhatIsDamaged) {
  std::string good = makeNpyHeader("<i8", {2, 2});
  EXPECT_EQ(whyNot(""), "it is no .npy file");
  EXPECT_EQ(whyNot("PK\3\4 and so on"), "it is no .npy file");
  EXPECT_EQ(whyNot(good.substr(0, 40)), "its header is truncated");
  EXPECT_EQ(whyNot(withDictionary("{'descr': [('a', '<f4')]}")),
            "it holds records or has no dtype");
  std::string start = "{'descr': '<f4', 'fortran_order': False, 'shape': ";
  EXPECT_EQ(whyNot(withDictionary(start + "}")), "it has no shape");
  EXPECT_EQ(whyNot(withDictionary(start + "(2, 3")), "it has no shape");
  EXPECT_EQ(whyNot(withDictionary(start + "(2, -3)}")), "its shape is damaged");
  EXPECT_EQ(whyNot(withDictionary(start + "(99999999999999999999,)}")),
            "it is too large");
}

} // namespace
