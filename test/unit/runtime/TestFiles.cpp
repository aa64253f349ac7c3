// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See TestFiles.h.

#include "TestFiles.h"
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <netinet/in.h>
#include <random>
#include <regex>
#include <sstream>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace shardonnx::test {
namespace {

std::string makeFolder() {
  std::string pattern =
      (std::filesystem::temp_directory_path() / "shardonnx-XXXXXX").string();
  if (!::mkdtemp(pattern.data()))
    std::abort();
  return pattern;
}

int counter = 0;

} // namespace

Folder::Folder() : path(makeFolder()) {}
Folder::~Folder() { std::filesystem::remove_all(path); }

std::string Folder::write(const std::string &name,
                          const std::string &bytes) const {
  std::string file = *this / name;
  std::ofstream(file, std::ios::binary) << bytes;
  return file;
}

std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> linesOf(const std::string &err) {
  static const std::regex ofTheMachine(
      "cuda emulator: .*|[^:]+: warning: [0-9]+ ranks share [0-9]+ cores: .*");
  std::vector<std::string> lines;
  std::istringstream text(err);
  for (std::string line; std::getline(text, line);)
    if (!std::regex_match(line, ofTheMachine))
      lines.push_back(line);
  return lines;
}

double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool waitUntil(const std::function<bool()> &holds) {
  for (double end = now() + 180; !holds(); ::usleep(20'000))
    if (now() > end)
      return false;
  return true;
}

uint16_t freePort() {
  std::random_device random;
  while (true) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(10'000 + random() % 20'000));
    int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    bool free = ::bind(listener, reinterpret_cast<const sockaddr *>(&address),
                       sizeof(address)) == 0;
    ::close(listener);
    if (free)
      return ntohs(address.sin_port);
  }
}

bool hasEnded(int pid) {
  std::string state = readFile("/proc/" + std::to_string(pid) + "/stat");
  // The program's name, which may hold anything, stands in parentheses.
  size_t name = state.rfind(") ");
  return name == std::string::npos || state[name + 2] == 'Z' ||
         state[name + 2] == 'X';
}

Process::Process(std::vector<std::string> command, const Folder &folder,
                 Environment environment)
    : out(folder / ("out" + std::to_string(++counter))),
      err(folder / ("err" + std::to_string(counter))) {
  id = ::fork();
  if (id != 0)
    return;
  ::dup2(::open(out.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600), 1);
  ::dup2(::open(err.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600), 2);
  for (auto &[name, value] : environment)
    ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char *> argv;
  for (std::string &word : command)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

std::vector<int> Process::children() const {
  std::string task = std::to_string(id);
  std::istringstream list(
      readFile("/proc/" + task + "/task/" + task + "/children"));
  std::vector<int> pids;
  for (int pid; list >> pid;)
    pids.push_back(pid);
  return pids;
}

Finished Process::wait() {
  int status = 0;
  ::waitpid(id, &status, 0);
  Finished f;
  f.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  f.out = readFile(out);
  f.err = readFile(err);
  return f;
}

} // namespace shardonnx::test
