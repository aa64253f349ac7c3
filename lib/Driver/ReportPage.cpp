// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See ReportPage.h.

#include "ReportPage.h"
#include "Report.inc"

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

std::string reportPage(llvm::StringRef json) {
  std::string page = kReportHead;
  page.reserve(page.size() + json.size() * 5 / 4 + sizeof(kReportTail));
  appendEscaped(page, json);
  page += kReportTail;
  return page;
}

} // namespace shardonnx
