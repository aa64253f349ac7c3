// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a program does not train or keep as the module would.

#include "shardonnx/Dialect/NN/IR/ParameterReport.h"
#include "shardonnx/Dialect/ONNX/IR/Untrained.h"
#include "shardonnx/Driver/Compilation.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace shardonnx {

// The names of untrained parameters, grouped by the reason.
static std::string
listUntrained(const llvm::MapVector<StringRef, SmallVector<StringRef>> &groups,
              size_t count) {
  constexpr size_t kShown = 20;
  size_t shown = 0;
  std::string text;
  for (const auto &[reason, names] : groups) {
    for (StringRef name : names)
      if (++shown <= kShown)
        text += (text.empty() ? "'" : ", '") + name.str() + "'";
    if (shown <= kShown)
      text += " (" + reason.str() + ")";
  }
  if (count > kShown)
    text += " and " + std::to_string(count - kShown) +
            " more (shardonnx inspect --parameters names them)";
  return text;
}

// The names, some of them where there are many.
static std::string listNames(ArrayRef<StringRef> names) {
  constexpr size_t kShown = 8;
  std::string text;
  for (StringRef name : names.take_front(kShown))
    text += (text.empty() ? "'" : ", '") + name.str() + "'";
  if (names.size() > kShown)
    text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

// What forward writes stays as it is in the file: a program changes nothing but
// what trains.
LogicalResult Compilation::reportWritten(ArrayAttr list) {
  SmallVector<StringRef> read, unread, statistics;
  for (auto entry : list.getAsRange<DictionaryAttr>()) {
    if (!entry.contains(nn::kReadByKey) || entry.contains("asked"))
      continue;
    bool statistic = entry.getAs<StringAttr>("reason") == onnx::kStatistic;
    (entry.contains("lost") ? read
     : statistic            ? statistics
                            : unread)
        .push_back(entry.getAs<StringAttr>("name"));
  }
  std::string model = "'" + options.model + "': ";
  std::string what = model + "forward writes " + listNames(read) +
                     ", which the loss reads: in training that would stay as "
                     "it is in the file; ";
  if (!read.empty() && importOptions.refusesGuesses)
    return diags.error(what + "let forward compute it from what trains, or "
                              "give --freeze=REGEX to go on with constants");
  if (!read.empty())
    diags.warning(what + "--freeze=REGEX accepts that");
  if (!statistics.empty())
    diags.warning(model +
                  "norms take the statistics of each batch, as in "
                  "train(), and the running ones (" +
                  listNames(statistics) +
                  ") stay as they are in the file: before eval(), let "
                  "torch.optim.swa_utils.update_bn() compute them");
  if (!unread.empty())
    diags.warning(model + "forward writes " + listNames(unread) +
                  ", which the loss does not read: in training that stays as "
                  "it is in the file");
  return success();
}

// One line for all parameters of the model that training leaves as they are
// and nobody asked for. What the exporter took out of the graph is known from
// the first level on, the rest once it is differentiated. An executable is not
// made where the module's training is lost.
LogicalResult Compilation::reportUntrained() {
  auto list = module()->getAttrOfType<ArrayAttr>(nn::kUntrainedAttr);
  if (!list)
    list = module()->getAttrOfType<ArrayAttr>(onnx::kUntrainedAttr);
  if (!list || options.program != ProgramKind::Train)
    return success();
  if (failed(reportWritten(list)))
    return failure();
  llvm::MapVector<StringRef, SmallVector<StringRef>> byReason;
  size_t count = 0;
  bool exporter = false, older = false, lost = false;
  for (auto entry : list.getAsRange<DictionaryAttr>()) {
    if (entry.contains("asked") || entry.contains(nn::kReadByKey))
      continue;
    ++count;
    StringRef reason = entry.getAs<StringAttr>("reason");
    byReason[reason].push_back(entry.getAs<StringAttr>("name"));
    exporter |= reason.ends_with("by the exporter");
    older |= reason.ends_with("by the older exporter");
    lost |= entry.contains("lost");
  }
  if (count == 0)
    return success();
  std::string what = Twine(count).str() +
                     (count == 1 ? " parameter is" : " parameters are") +
                     " not trained: " + listUntrained(byReason, count);
  std::string mend =
      older ? "export with do_constant_folding=False, which keeps parameters"
      : exporter ? "export with optimize=False to train what the exporter has "
                   "changed"
                 : "";
  if (lost && importOptions.refusesGuesses)
    return diags.error("'" + options.model + "': " + what + "; " + mend +
                       ", or give --freeze=REGEX to go on without");
  diags.warning("'" + options.model + "': " + what +
                (mend.empty() ? "" : "; " + mend));
  return success();
}

} // namespace shardonnx
