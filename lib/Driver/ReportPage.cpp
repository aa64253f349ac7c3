// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See ReportPage.h.

#include "ReportPage.h"
#include "Report.inc"
#include "shardonnx/Driver/Compilation.h"

namespace shardonnx {

// In JSON these stand in strings alone.
static void appendEscaped(std::string &page, llvm::StringRef json) {
  for (char letter : json) {
    switch (letter) {
    case '<':
      page += "\\u003c";
      break;
    case '>':
      page += "\\u003e";
      break;
    case '&':
      page += "\\u0026";
      break;
    default:
      page += letter;
    }
  }
}

mlir::LogicalResult writeReportPage(llvm::StringRef json,
                                    const std::string &path,
                                    Diagnostics &diagnostics) {
  std::string page = kReportHead;
  page.reserve(page.size() + json.size() * 5 / 4 + sizeof(kReportTail));
  appendEscaped(page, json);
  page += kReportTail;
  if (path != "-")
    return writeFileAtomically(diagnostics, path, page);
  llvm::outs() << page;
  return mlir::success();
}

} // namespace shardonnx
