// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Walks ModelProto.graph.initializer by field number. Field numbers are those
// of onnx.proto, which never change.

#include "WireFormat.h"

#include "llvm/ADT/STLFunctionalExtras.h"

using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

namespace shardonnx {
namespace {

enum WireType { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

enum ModelField { ModelGraph = 7 };
enum GraphField { GraphNode = 1, GraphInitializer = 5 };
enum NodeField { NodeOutput = 2, NodeOpType = 4, NodeAttribute = 5 };
enum AttributeField { AttributeTensor = 5 };
enum TensorField {
  TensorFloatData = 4,
  TensorInt32Data = 5,
  TensorInt64Data = 7,
  TensorName = 8,
  TensorRawData = 9,
  TensorDoubleData = 10,
  TensorUint64Data = 11
};

Error malformed(const char *what) {
  return llvm::createStringError(std::errc::invalid_argument, what);
}

/// One field of a message: its bytes with the tag, and its payload.
struct Field {
  unsigned number = 0;
  unsigned wireType = 0;
  StringRef whole;
  StringRef payload;
};

class Reader {
public:
  explicit Reader(StringRef bytes) : rest(bytes) {}

  bool done() const { return rest.empty(); }

  Expected<Field> next() {
    StringRef start = rest;
    uint64_t tag = 0, size = 0;
    if (!readVarint(tag))
      return malformed("it ends inside a field");
    Field field;
    field.number = static_cast<unsigned>(tag >> 3);
    field.wireType = static_cast<unsigned>(tag & 7);
    if (field.number == 0 || (tag >> 3) > 0x1fffffff)
      return malformed("it is not an ONNX model");
    switch (field.wireType) {
    case Varint: {
      StringRef before = rest;
      if (!readVarint(size))
        return malformed("it ends inside a field");
      field.payload = before.drop_back(rest.size());
      field.whole = start.drop_back(rest.size());
      return field;
    }
    case Fixed64:
      size = 8;
      break;
    case Fixed32:
      size = 4;
      break;
    case Bytes:
      if (!readVarint(size))
        return malformed("it ends inside a field");
      break;
    default:
      return malformed("it is not an ONNX model");
    }
    if (size > rest.size())
      return malformed("it is truncated, or not an ONNX model");
    field.payload = rest.take_front(size);
    rest = rest.drop_front(size);
    field.whole = start.drop_back(rest.size());
    return field;
  }

private:
  bool readVarint(uint64_t &value) {
    value = 0;
    for (unsigned i = 0; i < 10; ++i) {
      if (i >= rest.size())
        return false;
      uint64_t byte = static_cast<unsigned char>(rest[i]);
      value |= (byte & 0x7f) << (7 * i);
      if (byte < 0x80) {
        rest = rest.drop_front(i + 1);
        return true;
      }
    }
    return false;
  }

  StringRef rest;
};

void appendVarint(std::string &out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out += static_cast<char>((value & 0x7f) | 0x80);
  out += static_cast<char>(value);
}

void appendMessage(std::string &out, unsigned number, StringRef message) {
  appendVarint(out, (uint64_t(number) << 3) | Bytes);
  appendVarint(out, message.size());
  out.append(message.data(), message.size());
}

class Stripper {
public:
  Stripper(StringRef file, uint64_t limit) : file(file), limit(limit) {}

  Expected<StrippedModel> run() {
    bool sawGraph = false;
    Error error = rewrite(file, result.bytes, ModelGraph,
                          [&](StringRef graph, std::string &out) {
                            sawGraph = true;
                            return stripGraph(graph, out);
                          });
    if (error)
      return error;
    if (!sawGraph)
      return malformed("it is not an ONNX model: it has no graph");
    return std::move(result);
  }

private:
  using Handler = llvm::function_ref<Error(StringRef, std::string &)>;

  /// Copies the fields of `message`, passing field `number` through `handler`.
  Error rewrite(StringRef message, std::string &out, unsigned number,
                Handler handler) {
    for (Reader reader(message); !reader.done();) {
      Expected<Field> field = reader.next();
      if (!field)
        return field.takeError();
      if (field->number != number) {
        out.append(field->whole.data(), field->whole.size());
        continue;
      }
      if (field->wireType != Bytes)
        return malformed("it is not an ONNX model");
      std::string inner;
      if (Error error = handler(field->payload, inner))
        return error;
      appendMessage(out, number, inner);
    }
    return Error::success();
  }

  Error stripGraph(StringRef graph, std::string &out) {
    for (Reader reader(graph); !reader.done();) {
      Expected<Field> field = reader.next();
      if (!field)
        return field.takeError();
      bool isMessage = field->wireType == Bytes;
      std::string tensor;
      StringRef constant, name;
      if (isMessage && field->number == GraphNode &&
          field->payload.size() > limit &&
          findConstant(field->payload, constant, name)) {
        // A large constant is a weight under another name.
        if (Error error = stripTensor(constant, tensor))
          return error;
        result.initializers.back().isConstant = true;
        appendMessage(tensor, TensorName, name);
        appendMessage(out, GraphInitializer, tensor);
      } else if (isMessage && field->number == GraphInitializer) {
        if (Error error = stripTensor(field->payload, tensor))
          return error;
        appendMessage(out, GraphInitializer, tensor);
      } else {
        out.append(field->whole.data(), field->whole.size());
      }
    }
    return Error::success();
  }

  /// The payload of field `number` of a message, or empty.
  static StringRef findField(StringRef message, unsigned number) {
    StringRef found;
    for (Reader reader(message); !reader.done();) {
      Expected<Field> field = reader.next();
      if (!field) {
        llvm::consumeError(field.takeError());
        return {};
      }
      if (field->number == number && field->wireType == Bytes)
        found = field->payload;
    }
    return found;
  }

  /// The tensor and the output of a Constant node whose value is a tensor.
  static bool findConstant(StringRef node, StringRef &tensor,
                           StringRef &output) {
    if (findField(node, NodeOpType) != "Constant")
      return false;
    tensor = findField(findField(node, NodeAttribute), AttributeTensor);
    output = findField(node, NodeOutput);
    return !tensor.empty() && !output.empty();
  }

  static bool isData(const Field &field) {
    switch (field.number) {
    case TensorFloatData:
    case TensorInt32Data:
    case TensorInt64Data:
    case TensorRawData:
    case TensorDoubleData:
    case TensorUint64Data:
      return true;
    default:
      return false;
    }
  }

  /// Contiguous little-endian elements: raw data and packed floats.
  static bool isMappable(const Field &field) {
    return field.wireType == Bytes &&
           (field.number == TensorRawData || field.number == TensorFloatData ||
            field.number == TensorDoubleData);
  }

  Error stripTensor(StringRef tensor, std::string &out) {
    InitializerBytes bytes;
    std::vector<Field> data;
    for (Reader reader(tensor); !reader.done();) {
      Expected<Field> field = reader.next();
      if (!field)
        return field.takeError();
      if (isData(*field) && !field->payload.empty())
        data.push_back(*field);
      else
        out.append(field->whole.data(), field->whole.size());
    }
    if (data.size() == 1 && isMappable(data.front())) {
      StringRef payload = data.front().payload;
      bytes.mappable = true;
      bytes.offset = static_cast<uint64_t>(payload.data() - file.data());
      bytes.length = payload.size();
      bytes.stripped = payload.size() > limit;
    }
    if (!bytes.stripped)
      for (const Field &field : data)
        out.append(field.whole.data(), field.whole.size());
    result.initializers.push_back(bytes);
    return Error::success();
  }

  StringRef file;
  uint64_t limit;
  StrippedModel result;
};

} // namespace

Expected<StrippedModel> stripModel(StringRef file, uint64_t limit) {
  if (file.empty())
    return malformed("it is empty");
  return Stripper(file, limit).run();
}

} // namespace shardonnx
