// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Packed parameters, and the op that decodes them.

#include "shardonnx/Dialect/NN/IR/PackedParameters.h"
#include "Evaluate.h"
#include "shardonnx/runtime/Unpack.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

std::optional<Packing> nn::packingOf(ParameterOp parameter) {
  auto word = parameter->getAttrOfType<StringAttr>(kPackingAttr);
  return word ? parseSpelling<Packing>(word.getValue()) : std::nullopt;
}

RankedTensorType nn::packedShape(ParameterOp parameter) {
  auto type = cast<RankedTensorType>(parameter.getType());
  if (!parameter->hasAttr(kPackedTransposedAttr))
    return type;
  return type.clone({type.getDimSize(1), type.getDimSize(0)});
}

static int64_t packedBytes(Packing packing, ShapedType type) {
  return packedLayout(packing, type.getDimSize(0), type.getDimSize(1)).bytes;
}

RankedTensorType nn::typeIn(ParameterOp parameter, Type dtype) {
  auto type = cast<RankedTensorType>(parameter.getType());
  std::optional<Packing> packing = packingOf(parameter);
  if (!packing)
    return type.clone(dtype);
  return RankedTensorType::get(
      {packedBytes(*packing, packedShape(parameter)) / kPackedWord},
      IntegerType::get(parameter->getContext(), 32));
}

int64_t nn::elementsIn(ParameterOp parameter, Type dtype) {
  auto type = cast<RankedTensorType>(parameter.getType());
  std::optional<Packing> packing = packingOf(parameter);
  if (!packing)
    return type.getNumElements();
  return packedBytes(*packing, packedShape(parameter)) /
         (dtype.getIntOrFloatBitWidth() / 8);
}

LogicalResult UnpackOp::verify() {
  std::optional<Packing> packing = parseSpelling<Packing>(getPacking());
  if (!packing)
    return emitOpError() << "'" << getPacking() << "' is no packing";
  auto packed = tensorType(getPacked()), result = tensorType(getResult());
  if (result.getRank() != 2 || !packed.getElementType().isInteger(32) ||
      packed.getNumElements() * kPackedWord != packedBytes(*packing, result))
    return emitOpError() << "cannot decode " << packed << " to " << result;
  return success();
}

NN_EVALUATE(UnpackOp) {
  if (!interpreter.allows(*this))
    return failure();
  std::vector<int32_t> words;
  for (const Scalar &word : interpreter.get(getPacked()).flatten())
    words.push_back(static_cast<int32_t>(word.i));
  auto result = tensorType(getResult());
  std::vector<float> values(result.getNumElements());
  Unpacker(parseSpelling<Packing>(getPacking()).value(), result.getDimSize(0),
           result.getDimSize(1), words.data())
      .decode(0, int64_t(values.size()), values.data());
  Arithmetic type = interpreter.arithmetic(getResult());
  std::vector<Scalar> rounded;
  for (float value : values)
    rounded.push_back(ofFloat(type.round(value)));
  return interpreter.set(getResult(), HostTensor::dense(result.getShape(),
                                                        result.getElementType(),
                                                        std::move(rounded)));
}
