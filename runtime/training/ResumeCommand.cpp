// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See ResumeCommand.h.

#include "ResumeCommand.h"
#include <cctype>

namespace shardonnx::rt {
namespace {

constexpr const char *kOption = "--resume";

std::string quoted(const std::string &word) {
  bool plain = !word.empty();
  for (char c : word)
    plain &= std::isalnum(static_cast<unsigned char>(c)) ||
             std::string("-_./,:=+@%").find(c) != std::string::npos;
  if (plain)
    return word;
  std::string text = "'";
  for (char c : word)
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

} // namespace

std::string resumeCommand(const std::vector<std::string> &command,
                          const std::string &folder) {
  std::string line;
  for (size_t i = 0; i < command.size(); ++i) {
    if (command[i] == kOption) { // and the folder behind it
      ++i;
      continue;
    }
    if (command[i].rfind(std::string(kOption) + "=", 0) != 0)
      line += quoted(command[i]) + " ";
  }
  return line + kOption + " " + quoted(folder);
}

} // namespace shardonnx::rt
