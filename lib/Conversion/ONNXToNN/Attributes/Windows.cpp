// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads kernel_shape, strides, dilations, pads, auto_pad, ceil_mode, and the
// output_shape of a transposed convolution.

#include "Windows.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace shardonnx {

/// The integers of an attribute, one for each axis; false where there are more
/// or fewer, or one is out of range. What is larger is a mistake, and products
/// of it would not fit in an integer.
static bool readPerAxis(onnx::NodeOp node, StringRef name, size_t count,
                        int64_t byDefault, int64_t least,
                        SmallVectorImpl<int64_t> &values) {
  constexpr int64_t most = 1 << 16;
  if (!node.getInts(name, values))
    values.assign(count, byDefault);
  return values.size() == count && llvm::all_of(values, [&](int64_t value) {
           return value >= least && value <= most;
         });
}

/// What convolutions, transposed ones and poolings share.
static StringRef readGeometry(onnx::NodeOp node, size_t rank,
                              ArrayRef<int64_t> kernel, Windows &w) {
  SmallVector<int64_t> given, pads;
  if (node.getInts("kernel_shape", given) && ArrayRef<int64_t>(given) != kernel)
    return "kernel_shape is not the kernel's";
  w.sizes.assign(kernel.begin(), kernel.end());
  if (rank < 1 || kernel.size() != rank ||
      llvm::any_of(
          kernel, [](int64_t size) { return size < 1 || size > 1 << 16; }) ||
      !readPerAxis(node, "strides", rank, 1, 1, w.strides) ||
      !readPerAxis(node, "dilations", rank, 1, 1, w.dilations) ||
      !readPerAxis(node, "pads", 2 * rank, 0, 0, pads))
    return "its kernel, strides, dilations or pads do not fit";
  w.low.assign(pads.begin(), pads.begin() + rank);
  w.high.assign(pads.begin() + rank, pads.end());
  StringRef automatic = node.getString("auto_pad", "NOTSET");
  if (automatic == "VALID") {
    w.low.assign(rank, 0);
    w.high.assign(rank, 0);
  }
  return llvm::StringSwitch<StringRef>(automatic)
      .Cases({"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"}, "")
      .Default("its auto_pad is unknown");
}

/// Splits padding between both ends; an odd one goes to the end or, for
/// `lower`, to the start.
static void splitPadding(Windows &w, int64_t i, int64_t total, bool lower) {
  w.low[i] = lower ? total - total / 2 : total / 2;
  w.high[i] = total - w.low[i];
}

StringRef readWindows(onnx::NodeOp node, ArrayRef<int64_t> input,
                      ArrayRef<int64_t> kernel, Windows &w) {
  if (StringRef why = readGeometry(node, input.size(), kernel, w); !why.empty())
    return why;
  StringRef automatic = node.getString("auto_pad", "NOTSET");
  bool roundUp = automatic == "NOTSET" && node.getInt("ceil_mode", 0) != 0;
  for (int64_t i = 0; i < w.rank(); ++i) {
    int64_t size = input[i], stride = w.strides[i];
    if (automatic.starts_with("SAME")) {
      int64_t wanted = (size + stride - 1) / stride;
      int64_t reach = (wanted - 1) * stride + w.span(i);
      splitPadding(w, i, std::max<int64_t>(0, reach - size),
                   automatic == "SAME_LOWER");
    }
    int64_t padded = size + w.low[i] + w.high[i], room = padded - w.span(i);
    // Rounded up, a window that begins inside may end outside, the first too.
    int64_t reach = room + (roundUp ? stride - 1 : 0);
    if (reach < 0)
      return roundUp
                 ? "its kernel is larger than the padded input by more than "
                   "its stride"
                 : "its kernel is larger than the padded input";
    int64_t places = reach / stride + 1;
    // A window that would start in the padding at the end is left out.
    if (roundUp && (places - 1) * stride >= size + w.low[i])
      --places;
    w.places.push_back(places);
    w.beyond.push_back(std::max<int64_t>(0, w.extent(i) - padded));
  }
  return "";
}

StringRef readTransposedWindows(onnx::NodeOp node, ArrayRef<int64_t> places,
                                ArrayRef<int64_t> kernel, Windows &w) {
  if (StringRef why = readGeometry(node, places.size(), kernel, w);
      !why.empty())
    return why;
  w.places.assign(places.begin(), places.end());
  SmallVector<int64_t> extra, wanted;
  size_t rank = places.size();
  bool hasShape = node.getInts("output_shape", wanted);
  if (wanted.size() == rank + 2) // all axes, not only the spatial ones
    wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (!readPerAxis(node, "output_padding", rank, 0, 0, extra) ||
      (hasShape && wanted.size() != rank))
    return "its pads do not fit";
  StringRef automatic = node.getString("auto_pad", "NOTSET");
  for (int64_t i = 0; i < w.rank(); ++i) {
    if (hasShape || automatic.starts_with("SAME")) {
      int64_t size = hasShape ? wanted[i] : places[i] * w.strides[i];
      int64_t total = w.extent(i) + extra[i] - size;
      // What stands beyond the last product is told nowhere.
      if (total < 0 && !hasShape)
        return "its pads do not fit";
      splitPadding(w, i, std::max<int64_t>(0, total),
                   automatic != "SAME_UPPER");
      w.high[i] = total - w.low[i];
    }
    w.high[i] -= extra[i];
    if (w.extent(i) - w.low[i] - w.high[i] < 1)
      return "its pads do not fit";
  }
  return "";
}

} // namespace shardonnx
