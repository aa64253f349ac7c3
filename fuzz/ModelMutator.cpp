// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mutations of the message: numbers become those at which arithmetic breaks,
// names become other names of the model (which rewires the graph, in circles
// too), op types become other op types, elements are dropped, doubled and
// swapped.

#include "ModelMutator.h"

#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

namespace shardonnx::fuzz {
namespace {

class Mutator {
public:
  Mutator(onnx::ModelProto &model, unsigned seed, ByteMutator mutateBytes)
      : random(seed), mutateBytes(mutateBytes) {
    collect(model);
  }

  void run() {
    Message &message = *messages[pick(messages.size())];
    const auto *type = message.GetDescriptor();
    const FieldDescriptor *field =
        type->field(static_cast<int>(pick(type->field_count())));
    if (field->is_repeated())
      changeRepeated(message, field);
    else
      changeSingle(message, field);
  }

private:
  size_t pick(size_t count) { return random() % count; }

  void collect(Message &message);
  void changeSingle(Message &message, const FieldDescriptor *field);
  void changeRepeated(Message &message, const FieldDescriptor *field);
  void setElement(Message &message, const FieldDescriptor *field, int index);
  void addElement(Message &message, const FieldDescriptor *field);

  int64_t number();
  double real();
  std::string text(const std::string &old, const FieldDescriptor *field);

  std::minstd_rand random;
  ByteMutator mutateBytes;
  std::vector<Message *> messages;
  std::vector<std::string> words;
};

/// All messages below this one, and the words that stand in them.
void Mutator::collect(Message &message) {
  messages.push_back(&message);
  const Reflection *reflection = message.GetReflection();
  std::vector<const FieldDescriptor *> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor *field : fields) {
    int count =
        field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      bool many = field->is_repeated();
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE)
        collect(*(many ? reflection->MutableRepeatedMessage(&message, field, i)
                       : reflection->MutableMessage(&message, field)));
      else if (field->type() == FieldDescriptor::TYPE_STRING)
        words.push_back(many ? reflection->GetRepeatedString(message, field, i)
                             : reflection->GetString(message, field));
    }
  }
}

int64_t Mutator::number() {
  static constexpr int64_t edges[] = {-1,
                                      -2,
                                      0,
                                      INT32_MAX,
                                      INT32_MIN,
                                      INT64_MAX,
                                      INT64_MIN,
                                      int64_t(1) << 31,
                                      int64_t(1) << 40,
                                      int64_t(1) << 62,
                                      65536};
  if (random() % 2)
    return static_cast<int64_t>(pick(24));
  return edges[pick(std::size(edges))];
}

double Mutator::real() {
  static constexpr double edges[] = {0,    -0.0, 1,     -1,   0.5,
                                     1e-5, 1e38, -1e38, 1e300};
  return edges[pick(std::size(edges))];
}

const std::vector<std::string> &opTypes() {
  static const std::vector<std::string> types = [] {
    std::set<std::string> names;
    for (const auto &schema : onnx::OpSchemaRegistry::get_all_schemas())
      if (schema.domain().empty())
        names.insert(schema.Name());
    return std::vector<std::string>(names.begin(), names.end());
  }();
  return types;
}

std::string Mutator::text(const std::string &old,
                          const FieldDescriptor *field) {
  if (field->name() == "op_type")
    return opTypes()[pick(opTypes().size())];
  if (field->type() == FieldDescriptor::TYPE_STRING && random() % 4)
    return words.empty() ? std::string() : words[pick(words.size())];
  std::string bytes = old;
  bytes.resize(old.size() + 16);
  bytes.resize(mutateBytes(reinterpret_cast<uint8_t *>(bytes.data()),
                           old.size(), bytes.size()));
  return bytes;
}

void Mutator::changeSingle(Message &message, const FieldDescriptor *field) {
  const Reflection *r = message.GetReflection();
  if (random() % 8 == 0)
    return r->ClearField(&message, field);
  switch (field->cpp_type()) {
  case FieldDescriptor::CPPTYPE_INT32:
    return r->SetInt32(&message, field, static_cast<int32_t>(number()));
  case FieldDescriptor::CPPTYPE_INT64:
    return r->SetInt64(&message, field, number());
  case FieldDescriptor::CPPTYPE_UINT64:
    return r->SetUInt64(&message, field, static_cast<uint64_t>(number()));
  case FieldDescriptor::CPPTYPE_FLOAT:
    return r->SetFloat(&message, field, static_cast<float>(real()));
  case FieldDescriptor::CPPTYPE_DOUBLE:
    return r->SetDouble(&message, field, real());
  case FieldDescriptor::CPPTYPE_ENUM:
    return r->SetEnumValue(&message, field, static_cast<int>(pick(24)));
  case FieldDescriptor::CPPTYPE_STRING:
    return r->SetString(&message, field,
                        text(r->GetString(message, field), field));
  case FieldDescriptor::CPPTYPE_MESSAGE:
    r->MutableMessage(&message, field); // there, if empty
    return;
  default:
    return;
  }
}

void Mutator::setElement(Message &message, const FieldDescriptor *field,
                         int index) {
  const Reflection *r = message.GetReflection();
  switch (field->cpp_type()) {
  case FieldDescriptor::CPPTYPE_INT32:
    return r->SetRepeatedInt32(&message, field, index,
                               static_cast<int32_t>(number()));
  case FieldDescriptor::CPPTYPE_INT64:
    return r->SetRepeatedInt64(&message, field, index, number());
  case FieldDescriptor::CPPTYPE_UINT64:
    return r->SetRepeatedUInt64(&message, field, index,
                                static_cast<uint64_t>(number()));
  case FieldDescriptor::CPPTYPE_FLOAT:
    return r->SetRepeatedFloat(&message, field, index,
                               static_cast<float>(real()));
  case FieldDescriptor::CPPTYPE_DOUBLE:
    return r->SetRepeatedDouble(&message, field, index, real());
  case FieldDescriptor::CPPTYPE_STRING:
    return r->SetRepeatedString(
        &message, field, index,
        text(r->GetRepeatedString(message, field, index), field));
  default: // messages are changed by themselves
    return;
  }
}

void Mutator::addElement(Message &message, const FieldDescriptor *field) {
  const Reflection *r = message.GetReflection();
  switch (field->cpp_type()) {
  case FieldDescriptor::CPPTYPE_INT32:
    return r->AddInt32(&message, field, static_cast<int32_t>(number()));
  case FieldDescriptor::CPPTYPE_INT64:
    return r->AddInt64(&message, field, number());
  case FieldDescriptor::CPPTYPE_UINT64:
    return r->AddUInt64(&message, field, static_cast<uint64_t>(number()));
  case FieldDescriptor::CPPTYPE_FLOAT:
    return r->AddFloat(&message, field, static_cast<float>(real()));
  case FieldDescriptor::CPPTYPE_DOUBLE:
    return r->AddDouble(&message, field, real());
  case FieldDescriptor::CPPTYPE_STRING:
    return r->AddString(&message, field, text("", field));
  case FieldDescriptor::CPPTYPE_MESSAGE: {
    Message *added = r->AddMessage(&message, field);
    int others = r->FieldSize(message, field) - 1;
    if (others > 0)
      added->CopyFrom(r->GetRepeatedMessage(message, field,
                                            static_cast<int>(pick(others))));
    return;
  }
  default:
    return;
  }
}

void Mutator::changeRepeated(Message &message, const FieldDescriptor *field) {
  const Reflection *r = message.GetReflection();
  int count = r->FieldSize(message, field);
  if (count == 0 || random() % 4 == 0)
    return addElement(message, field);
  int index = static_cast<int>(pick(count));
  switch (random() % 4) {
  case 0:
    r->SwapElements(&message, field, index, count - 1);
    return r->RemoveLast(&message, field);
  case 1:
    return r->SwapElements(&message, field, index,
                           static_cast<int>(pick(count)));
  default:
    return setElement(message, field, index);
  }
}

} // namespace

void mutateMessage(onnx::ModelProto &model, unsigned seed,
                   ByteMutator mutateBytes) {
  Mutator(model, seed, mutateBytes).run();
}

} // namespace shardonnx::fuzz
