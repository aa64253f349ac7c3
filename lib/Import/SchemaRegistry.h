// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The ONNX library's schemas with a few changes. Two ops of which it infers no
// type get that of their first input. A squeezed axis that is longer than 1
// stays, as in PyTorch, and a pool's window that would begin in the padding
// behind the input is left out. Where it infers shapes it follows
// the values of vectors, and makes a list of as many unknown numbers as one has
// elements: hours for a vector of 2^40, and hundreds of megabytes for the norm
// weights of a large model. No shape has that many dimensions.

#ifndef SHARDONNX_LIB_IMPORT_SCHEMAREGISTRY_H
#define SHARDONNX_LIB_IMPORT_SCHEMAREGISTRY_H

#include <onnx/defs/schema.h>

#include <map>
#include <memory>
#include <tuple>

namespace shardonnx::onnxlib {

class SchemaRegistry : public ::onnx::ISchemaRegistry {
public:
  const ::onnx::OpSchema *
  GetSchema(const std::string &op, int version,
            const std::string &domain = ::onnx::ONNX_DOMAIN) const override;

private:
  using Key = std::tuple<std::string, int, std::string>;
  mutable std::map<Key, std::unique_ptr<::onnx::OpSchema>> schemas;
};

} // namespace shardonnx::onnxlib

#endif // SHARDONNX_LIB_IMPORT_SCHEMAREGISTRY_H
