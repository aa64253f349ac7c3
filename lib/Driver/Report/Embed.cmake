# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# cmake -DOUT=Report.inc -P this: writes the page of `inspect --html` as two
# strings, what stands before its data and what behind.

set(folder ${CMAKE_CURRENT_LIST_DIR})
file(READ ${folder}/report.html page)
file(READ ${folder}/report.css style)
set(script "")
foreach(name IN ITEMS base step units roofline run plans report)
  file(READ ${folder}/${name}.js text)
  string(APPEND script "${text}")
endforeach()
# The head of a source is of no use in a page.
string(REGEX REPLACE "// Part of Shardonnx[^\n]*\n// SPDX[^\n]*\n" "" script "${script}")
string(REGEX REPLACE "^/\\*[^*]*\\*/\n" "" style "${style}")
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
string(FIND "${page}" "@DATA@" at)
string(SUBSTRING "${page}" 0 ${at} head)
math(EXPR behind "${at} + 6")
string(SUBSTRING "${page}" ${behind} -1 tail)
file(WRITE ${OUT} "static constexpr char kReportHead[] = R\"page(${head})page\";
static constexpr char kReportTail[] = R\"page(${tail})page\";
")
