// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Models with faults that exporters and hands make, through whole compilations:
// each becomes LLVM IR, or is refused with lines of ours that do not blame the
// compiler. The mutants are the same on every machine. More of them, by
// variables of the environment:
//
//   SHARDONNX_MUTANTS=N          of each seed
//   SHARDONNX_MUTANTS_FIRST=N    the number of the first
//   SHARDONNX_MUTANTS_KEEP=DIR   where those that fail are kept

#include "../../fuzz/CompileModel.h"
#include "../../fuzz/ModelMutator.h"

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace shardonnx;
namespace fs = std::filesystem;

namespace {

constexpr int kMutantsOfSeed = 3;
constexpr rlim_t kSeconds = 120, kBytes = rlim_t(6) << 30;

int fromEnvironment(const char *name, int byDefault) {
  const char *text = std::getenv(name);
  return text ? std::atoi(text) : byDefault;
}

/// A folder with the seeds, which are gone with it.
class Seeds {
public:
  Seeds() {
    std::string pattern = (fs::temp_directory_path() / "mutants-XXXXXX");
    folder = ::mkdtemp(pattern.data());
    std::string command = "python3 '" SHARDONNX_SOURCE_DIR "/fuzz/seeds.py' '" +
                          folder.string() + "' compile";
    if (std::system(command.c_str()) != 0)
      return;
    for (const auto &entry : fs::directory_iterator(folder / "compile")) {
      std::ifstream stream(entry.path(), std::ios::binary);
      models[entry.path().filename()] =
          std::string(std::istreambuf_iterator<char>(stream), {});
    }
  }
  ~Seeds() { fs::remove_all(folder); }
  Seeds(const Seeds &) = delete;
  Seeds &operator=(const Seeds &) = delete;

  fs::path folder;
  std::map<std::string, std::string> models;
};

size_t flipByte(uint8_t *data, size_t size, size_t) {
  if (size > 0)
    data[size / 2] ^= 1;
  return size;
}

std::string mutate(const std::string &seed, unsigned number) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(seed));
  std::seed_seq mixed{number};
  std::mt19937 random(mixed);
  do {
    auto next = static_cast<unsigned>(random());
    if (random() % 4 == 0)
      fuzz::mutateMessage(model, next, flipByte);
    else
      fuzz::mutateGraph(model, next);
  } while (random() % 3 == 0);
  std::string bytes;
  EXPECT_TRUE(model.SerializePartialToString(&bytes));
  return bytes;
}

/// One-node seeds do not say what they compute.
std::string typed(const std::string &seed) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(seed));
  fuzz::inferTypes(model);
  return model.SerializePartialAsString();
}

/// What the process that compiles a mutant has to tell.
struct Told {
  bool done = false;
  std::string complaint; // empty: it ended well
};

[[noreturn]] void compileInChild(int out, const std::string &path,
                                 const std::string &bytes) {
  rlimit seconds{kSeconds, kSeconds}, memory{kBytes, kBytes}, none{0, 0};
  ::setrlimit(RLIMIT_CPU, &seconds);
  ::setrlimit(RLIMIT_AS, &memory);
  ::setrlimit(RLIMIT_CORE, &none);
  std::string text;
  char done = '0';
  for (fuzz::Made made : {fuzz::Made::Training, fuzz::Made::Gradients}) {
    fuzz::Compiled result = fuzz::compileModel(path, bytes, made);
    if (result.done)
      done = '1';
    if (!result.complaint.empty())
      text += result.complaint + ": " + result.messages;
  }
  text.insert(text.begin(), done);
  ssize_t written = ::write(out, text.data(), text.size());
  ::_exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
}

/// In a process of its own: its end may be the result.
Told compile(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  int ends[2];
  if (::pipe(ends) != 0)
    return {false, "no pipe"};
  pid_t child = ::fork();
  if (child == 0)
    compileInChild(ends[1], path, bytes);
  ::close(ends[1]);
  std::string text;
  char part[4096];
  for (ssize_t n; (n = ::read(ends[0], part, sizeof(part))) > 0;)
    text.append(part, static_cast<size_t>(n));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status))
    return {false,
            std::string("it ended with ") + ::strsignal(WTERMSIG(status))};
  if (status != 0 || text.empty())
    return {false, "it ended without a word"};
  return {text[0] == '1', text.substr(1)};
}

TEST(MutatedModels, CompileOrAreRefusedInOurWords) {
  Seeds seeds;
  ASSERT_GT(seeds.models.size(), 50U) << "fuzz/seeds.py wrote too few";
  int count = fromEnvironment("SHARDONNX_MUTANTS", kMutantsOfSeed);
  int first = fromEnvironment("SHARDONNX_MUTANTS_FIRST", 0);
  const char *keep = std::getenv("SHARDONNX_MUTANTS_KEEP");
  std::string path = seeds.folder / "model.onnx";
  int mutants = 0, done = 0;
  for (const auto &[name, seed] : seeds.models)
    for (int i = first; i < first + count; ++i) {
      // Number 0 is the seed itself.
      std::string bytes =
          i == 0
              ? typed(seed)
              : mutate(typed(seed), static_cast<unsigned>(i + 7919 * mutants));
      Told told = compile(path, bytes);
      ++mutants;
      done += told.done;
      if (told.complaint.empty())
        continue;
      ADD_FAILURE() << name << ", mutant " << i << ": " << told.complaint;
      if (keep)
        std::ofstream(fs::path(keep) / (name + "-" + std::to_string(i)),
                      std::ios::binary)
            << bytes;
    }
  std::printf("%d mutants, %d of them compiled\n", mutants, done);
  // Else nothing but the import would be tested.
  EXPECT_GT(done * 5, mutants);
}

} // namespace
