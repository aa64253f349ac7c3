// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checkpoints: runs that go on as if they had never stopped, what is never
// resumed, what an index may not say, and runs that are killed while they save.

#include "../../runtime/checkpoint/ByteHash.h"
#include "../../runtime/checkpoint/Index.h"
#include "../../runtime/checkpoint/StateHash.h"
#include "../../runtime/checkpoint/StoredParts.h"
#include "../../runtime/core/ParamPart.h"
#include "../../runtime/support/Error.h"
#include "runtime/TableRuns.h"
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <unistd.h>

using namespace shardonnx::test;
namespace rt = shardonnx::rt;
namespace fs = std::filesystem;

namespace {

class Checkpoints : public Runs {
protected:
  Finished train(const std::string &program, int ranks, int steps,
                 std::vector<std::string> more) {
    more.insert(more.end(), {"--steps", std::to_string(steps), "--nproc",
                             std::to_string(ranks)});
    return run(program, more);
  }
  Finished good(const std::string &program, int ranks, int steps,
                std::vector<std::string> more) {
    Finished f = train(program, ranks, steps, std::move(more));
    EXPECT_EQ(f.code, 0) << f.err;
    return f;
  }
  std::vector<double> losses(const std::string &log) {
    std::vector<double> all;
    for (const Json &line : readLog(folder / log))
      all.push_back(line["loss"]);
    return all;
  }
  // The word behind "state " of the line that begins with `what`.
  static std::string stateIn(const Finished &f, const std::string &what) {
    size_t line = f.out.find(what);
    EXPECT_NE(line, std::string::npos) << f.out;
    size_t at = f.out.find("state ", line);
    return at == std::string::npos ? "" : f.out.substr(at + 6, 16);
  }
  std::vector<std::string> namesIn(const std::string &name) {
    std::vector<std::string> names;
    for (const auto &entry : fs::directory_iterator(folder / name))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
};

TEST_F(Checkpoints, ARunGoesOnBitByBit) {
  for (const char *program : {"table_f32", "table_bf16_replicated"})
    for (int ranks : {1, 3}) {
      fs::remove_all(folder / "c");
      std::vector<std::string> all = {"--shuffle", "--log", folder / "a.jsonl"};
      good(program, ranks, 20, all);
      std::vector<std::string> saving = {
          "--shuffle", "--log", folder / "b.jsonl", "--save", folder / "c"};
      good(program, ranks, 10, saving);
      saving.insert(saving.end(), {"--resume", folder / "c"});
      good(program, ranks, 20, saving);
      EXPECT_EQ(losses("a.jsonl").size(), 20u);
      EXPECT_EQ(losses("a.jsonl"), losses("b.jsonl")) << program << ranks;
    }
}

TEST_F(Checkpoints, AnyRanksAndLayoutGoOn) {
  Finished saved =
      good("table_f32", 4, 5, {"--accumulate", "3", "--save", folder / "c"});
  std::string state = stateIn(saved, "saved ");
  good("table_f32", 4, 12,
       {"--accumulate", "3", "--resume", folder / "c", "--log",
        folder / "a.jsonl"});
  for (auto [program, ranks, accumulate] :
       {std::tuple{"table_f32_replicated", 3, "4"},
        {"table_f32", 1, "12"},
        {"table_mixed", 2, "6"},
        {"table_bf16", 3, "4"}}) {
    Finished f = good(program, ranks, 12,
                      {"--accumulate", accumulate, "--resume", folder / "c",
                       "--log", folder / "b.jsonl"});
    // The frozen parameter is rounded where the program keeps it in bf16.
    bool f32 = std::string(program).find("f32") != std::string::npos;
    EXPECT_EQ(stateIn(f, "resumed ") == state, f32) << program;
    std::vector<double> a = losses("a.jsonl"), b = losses("b.jsonl");
    ASSERT_EQ(b.size(), 7u);
    double bound = f32 ? 1e-5 : 1e-2;
    for (size_t i = 0; i < b.size(); ++i)
      EXPECT_NEAR(b[i] / a[i], 1, bound) << program << " step " << i + 6;
  }
}

TEST_F(Checkpoints, AreKeptAsAsked) {
  Finished f = good("table_f32", 2, 10,
                    {"--save", folder / "c", "--save-every", "3", "--keep", "2",
                     "--log", folder / "l.jsonl"});
  EXPECT_EQ(namesIn("c"),
            (std::vector<std::string>{"step-00000009", "step-00000010"}));
  EXPECT_EQ(namesIn("c/step-00000010"),
            (std::vector<std::string>{"index.json", "rank-00000.safetensors",
                                      "rank-00001.safetensors"}));
  int told = 0;
  for (const Json &line : readLog(folder / "l.jsonl"))
    if (line.contains("save_ms")) {
      ++told;
      EXPECT_GE(line["save_ms"], line["save_stall_ms"]);
    }
  EXPECT_GE(told, 2);
  // Memory while saving: nothing is staged.
  good("table_f32", 2, 10, {"--log", folder / "m.jsonl"});
  int64_t with = readLog(folder / "l.jsonl").back()["pss_bytes"];
  int64_t without = readLog(folder / "m.jsonl").back()["pss_bytes"];
  EXPECT_LT(with - without, 8 << 20);
}

TEST_F(Checkpoints, WhatIsNotWholeIsNamedAndNeverResumed) {
  good("table_f32", 2, 9, {"--save", folder / "c", "--save-every", "3"});
  std::string newest = folder / "c/step-00000009";
  fs::resize_file(newest + "/rank-00001.safetensors", 500);
  fs::create_directory(folder / "c/step-00000012.partial");
  Finished f = good("table_f32", 2, 10, {"--resume", folder / "c"});
  EXPECT_NE(f.out.find("step-00000006': step 6"), std::string::npos) << f.out;
  EXPECT_NE(f.err.find("step-00000012.partial' was not finished"),
            std::string::npos);
  EXPECT_NE(f.err.find("'rank-00001.safetensors' has 500 bytes"),
            std::string::npos);
  // Of two saves.
  fs::copy_file(folder / "c/step-00000003/rank-00001.safetensors",
                newest + "/rank-00001.safetensors",
                fs::copy_options::overwrite_existing);
  f = train("table_f32", 2, 10, {"--resume", newest});
  EXPECT_EQ(f.code, 1);
  expectOneError(f, "is mixed: 'rank-00001.safetensors'");
  // Other numbers than were saved.
  std::string path = folder / "c/step-00000006/rank-00000.safetensors";
  std::string bytes = readFile(path);
  bytes[bytes.size() - 700] ^= 1;
  folder.write("c/step-00000006/rank-00000.safetensors", bytes);
  f = train("table_f32", 2, 10, {"--resume", folder / "c/step-00000006"});
  EXPECT_EQ(f.code, 1);
  expectOneError(f, "'rank-00000.safetensors' is not as it was saved");
}

TEST_F(Checkpoints, SwappedFilesAreNotResumed) {
  good("table_f32", 2, 3, {"--save", folder / "c"});
  fs::path at = folder / "c/step-00000003";
  fs::rename(at / "rank-00000.safetensors", at / "x");
  fs::rename(at / "rank-00001.safetensors", at / "rank-00000.safetensors");
  fs::rename(at / "x", at / "rank-00001.safetensors");
  for (int ranks : {1, 2, 3}) {
    Finished f = train("table_f32", ranks, 5, {"--resume", folder / "c"});
    EXPECT_EQ(f.code, 1) << ranks;
    expectOneError(f, "is not as it was saved (its hash differs)");
  }
}

TEST_F(Checkpoints, OtherDataIsSaid) {
  good("table_f32", 1, 3, {"--save", folder / "c"});
  Finished same = good("table_f32", 1, 5, {"--resume", folder / "c"});
  EXPECT_EQ(same.err.find("other data"), std::string::npos) << same.err;
  std::string tokens = readFile(folder / "t.bin");
  tokens[0] ^= 1;
  folder.write("t.bin", tokens);
  Finished f = good("table_f32", 1, 5, {"--resume", folder / "c"});
  EXPECT_NE(f.err.find("was trained on other data than --data (the samples "
                       "differ)"),
            std::string::npos)
      << f.err;
}

// What shardonnx wrote before its indices and files had hashes.
TEST_F(Checkpoints, VersionOneIsReadAndItsTensorsAreChecked) {
  good("table_f32", 2, 3, {"--save", folder / "c"});
  std::string index = "c/step-00000003/index.json";
  Json json = Json::parse(readFile(folder / index));
  json["version"] = 1;
  json.erase("index_hash");
  json.erase("data");
  for (Json &file : json["files"])
    file.erase("hash");
  folder.write(index, json.dump());
  for (int ranks : {1, 3}) {
    Finished f = good("table_f32", ranks, 5, {"--resume", folder / "c"});
    EXPECT_NE(f.err.find("is of an older shardonnx"), std::string::npos);
  }
  std::string path = folder / "c/step-00000003/rank-00000.safetensors";
  std::string bytes = readFile(path);
  bytes[bytes.size() - 700] ^= 1;
  folder.write("c/step-00000003/rank-00000.safetensors", bytes);
  // A frozen parameter that the program keeps in another dtype, too.
  for (const char *program : {"table_f32", "table_bf16"}) {
    Finished f = train(program, 2, 5, {"--resume", folder / "c"});
    EXPECT_EQ(f.code, 1);
    expectOneError(f, "their hash differs");
  }
}

TEST_F(Checkpoints, OneLineSaysWhatIsWrong) {
  good("table_f32", 1, 4, {"--save", folder / "c"});
  struct Case {
    std::vector<std::string> options;
    int code;
    const char *says;
  };
  for (const Case &c :
       {Case{{"--resume", folder / "none"}, 1, "there is no checkpoint in"},
        Case{{"--resume", folder / "c", "--steps", "3"}, 2, "more --steps"},
        Case{{"--save-every", "2"}, 2, "--save-every needs --save"},
        Case{{"--keep", "2"}, 2, "--keep needs --save"},
        Case{{"--save", folder / "c", "--steps", "2"},
             1,
             "of a later step than 0"},
        Case{{"--save", "/proc/c", "--steps", "2"},
             1,
             "cannot make the folder"}}) {
    Finished f = run("table_f32", c.options);
    EXPECT_EQ(f.code, c.code) << f.err;
    expectOneError(f, c.says);
  }
}

// ---- The index is untrusted

Json tinyIndex() {
  return Json::parse(R"({"format": "shardonnx-checkpoint", "version": 2,
    "id": "a-1",
    "program": {"name": "p", "strategy": "full_shard", "optimizer": "adamw",
                "optimizer_dtype": "f32", "master_dtype": "f32",
                "model": {"path": "m.onnx", "sha256": ""}},
    "world_size": 2,
    "state": {"step": 1, "optimizer_steps": 1, "samples": 4, "loss_scale": 1.0,
              "clean_steps": 0},
    "options": {"seed": 0, "shuffle": false},
    "data": {"samples": 24, "hash": "00000000000000ff"},
    "state_hash": {"trainable": "0123456789abcdef",
                   "frozen": "0000000000000000"},
    "files": [{"name": "rank-00000.safetensors", "bytes": 10,
               "hash": "0000000000000001"},
              {"name": "rank-00001.safetensors", "bytes": 10,
               "hash": "0000000000000002"}],
    "units": [{"name": "u", "length": 32, "frozen_length": 0, "matrix_length": 0,
      "frozen_dtype": "f32",
      "params": [{"name": "w", "onnx": "w", "offset": 0, "shape": [4, 4],
                  "tied": [], "state_dict": "w", "trainable": true}],
      "slices": [{"file": 0, "begin": 0, "end": 16},
                 {"file": 1, "begin": 16, "end": 32}],
      "frozen_slices": []}]})");
}

std::string errorOfText(const std::string &text) {
  try {
    rt::parseIndex(text, "c");
    return "";
  } catch (const rt::Error &e) {
    return e.what();
  }
}

std::string errorOf(const Json &json) {
  return errorOfText(rt::sealIndex(json.dump()));
}

TEST(CheckpointIndex, IsReadAsItIsWritten) {
  std::string text = rt::sealIndex(tinyIndex().dump());
  rt::Checkpoint index = rt::parseIndex(text, "c");
  EXPECT_EQ(index.units[0].trainable[1].interval.begin, 16);
  EXPECT_EQ(index.files[1].hash, 2u);
  ASSERT_TRUE(index.data);
  EXPECT_EQ(index.data->samples, 24);
  EXPECT_EQ(index.data->hash, 255u);
  std::string again = rt::writeIndex(index);
  Json json = Json::parse(again);
  EXPECT_TRUE(json.erase("index_hash"));
  EXPECT_EQ(json, tinyIndex());
  EXPECT_EQ(rt::writeIndex(rt::parseIndex(again, "c")), again);
}

TEST(CheckpointIndex, NoBitOfItMayDiffer) {
  std::string text =
      rt::writeIndex(rt::parseIndex(rt::sealIndex(tinyIndex().dump()), "c"));
  for (size_t i = 0; i < text.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ 1 << bit);
      EXPECT_NE(errorOfText(damaged), "") << i << " " << bit;
    }
  for (size_t size = 0; size < text.size(); ++size)
    EXPECT_NE(errorOfText(text.substr(0, size)), "") << size;
  EXPECT_NE(errorOfText(text + "\n"), "");
  Json json = tinyIndex(); // without a hash it would have to be version 1
  EXPECT_NE(errorOfText(json.dump()).find("contradict"), std::string::npos);
  json["version"] = 1;
  EXPECT_EQ(errorOfText(json.dump()), "");
}

TEST(ByteHash, SeesEveryBitInAnyPieces) {
  std::string text = "seventeen letters";
  uint64_t whole = rt::hashBytes(text);
  for (size_t cut = 0; cut <= text.size(); ++cut)
    for (size_t next = cut; next <= text.size(); ++next) {
      rt::ByteHash hash;
      hash.add(text.data(), cut);
      hash.add(text.data() + cut, next - cut);
      hash.add(text.data() + next, text.size() - next);
      EXPECT_EQ(hash.value(), whole) << cut << " " << next;
    }
  EXPECT_NE(rt::hashBytes(text + '\0'), whole);
  EXPECT_NE(rt::hashBytes(text.substr(1)), whole);
  // As tools/checkpoint-convert computes it.
  EXPECT_EQ(rt::hexText(whole), "343a955878e40ef1");
}

TEST(CheckpointIndex, IsCheckedEverywhere) {
  struct Case {
    const char *pointer;
    Json value;
    const char *says;
  };
  for (const Case &c : std::vector<Case>{
           {"/files/0/name", "../x.safetensors", "leads out of its folder"},
           {"/files/0/name", "/etc/passwd", "leads out of its folder"},
           {"/files/0/bytes", -1, "'bytes' is out of range"},
           {"/units/0/slices/1/begin", 8, "overlap or leave some of it out"},
           {"/units/0/slices/1/begin", 20, "overlap or leave some of it out"},
           {"/units/0/slices/1/end", 31, "end at element 31 of 32"},
           {"/units/0/slices/1/file", 0, "overlap or leave some of it out"},
           {"/units/0/slices/1/file", 2, "out of range"},
           {"/units/0/length", INT64_MAX, "'length' is out of range"},
           {"/units/0/params/0/shape", {INT64_MAX, 4}, "out of range"},
           {"/units/0/params/0/shape", {-4, 4}, "out of range"},
           {"/units/0/params/0/offset", 24, "lies outside its unit"},
           {"/units/0/frozen_dtype", "f64", "unknown dtype"},
           {"/program/optimizer", "lion", "unknown optimizer"},
           {"/state_hash/trainable", "12", "16 digits"},
           {"/state/step", "one", "is damaged"},
           {"/version", 4, "is of version 4 of the format"},
           {"/version", 3, "its version and its mesh contradict each other"},
           {"/format", "other", "not the index of a checkpoint"}}) {
    Json json = tinyIndex();
    json[Json::json_pointer(c.pointer)] = c.value;
    std::string error = errorOf(json);
    EXPECT_NE(error.find(c.says), std::string::npos) << c.pointer << error;
  }
  Json twice = tinyIndex();
  twice["units"].push_back(twice["units"][0]);
  EXPECT_NE(errorOf(twice).find("twice"), std::string::npos);
}

// Parameters that are split lie in as many sections as there are parts.
TEST(CheckpointIndex, PartsAreChecked) {
  Json json = tinyIndex();
  json["version"] = 3;
  json["mesh"] = {{"tensor", 2}};
  Json &unit = json["units"][0];
  Json &param = unit["params"][0];
  int64_t size = param["shape"][0].get<int64_t>();
  param["split"] = {{"dim", 0}, {"sections", Json::array({2 * size})}};
  int64_t length = unit["length"].get<int64_t>();
  std::string error = errorOf(json);
  EXPECT_NE(
      error.find(rt::concat("end at element ", length, " of ", 2 * length)),
      std::string::npos)
      << error;
  param["split"]["sections"] = Json::array({2 * size + 1});
  EXPECT_NE(errorOf(json).find("2 parts do not divide it"), std::string::npos);
  param["split"] = {{"dim", 2}, {"sections", Json::array({2 * size})}};
  EXPECT_NE(errorOf(json).find("2 parts do not divide it"), std::string::npos);
  json["mesh"]["tensor"] = 1;
  EXPECT_NE(errorOf(json).find("no 1 ranks"), std::string::npos);
}

// Of a parameter [2, 6], sections of 4 and 2 columns, that two ranks split.
TEST(StateHash, IsThatOfTheWholeHoweverItIsSplit) {
  shardonnx::Manifest::Param param;
  param.name = "w";
  param.shape = {2, 6};
  std::vector<float> whole(12), parts(32, 9);
  std::iota(whole.begin(), whole.end(), 1.0f);
  auto bytes = [](const std::vector<float> &values) {
    return reinterpret_cast<const uint8_t *>(values.data());
  };
  uint64_t hash = rt::SectionHash({param}, rt::StateArray::Master, SHX_F32)
                      .of(bytes(whole), 0, 12);
  param.shape = {2, 3};
  param.split = shardonnx::Split{1, {4, 2}};
  param.offset = 4;
  for (size_t row : {0, 1})
    for (size_t part : {0, 1})
      for (size_t column : {0, 1, 2})
        parts[part * 16 + 4 + row * 3 + column] =
            whole[row * 6 + (column < 2 ? part * 2 + column : 4 + part)];
  rt::SectionHash split({param}, rt::StateArray::Master, SHX_F32,
                        /*matrixLength=*/0, /*tensor=*/2, /*length=*/16);
  EXPECT_EQ(split.of(bytes(parts), 0, 32), hash);
  uint64_t sum = 0;
  for (int64_t begin : {0, 7, 14, 21, 28})
    sum += split.of(bytes(parts) + begin * 4, begin,
                    std::min<int64_t>(7, 32 - begin));
  EXPECT_EQ(sum, hash);
}

// A vocabulary of 5 words along either dimension, of which the second rank has
// 2 and something else behind them: it is in no whole parameter.
TEST(ParamPart, TheLastRankHasFewerWords) {
  for (int64_t dim : {0, 1}) {
    shardonnx::Manifest::Param param;
    param.name = "w";
    param.shape = {4, 4};
    param.shape[size_t(dim)] = 3;
    param.split = shardonnx::Split{dim, {5}};
    std::vector<float> whole(20), parts(40, 9);
    std::iota(whole.begin(), whole.end(), 1.0f);
    EXPECT_EQ(param.wholeElements(), 20);
    for (int64_t part : {0, 1})
      for (int64_t cut : {0, 1, 5, 7, 12}) { // in two pieces
        auto copy = [&](int64_t at, int64_t from, int64_t count) {
          std::copy_n(whole.begin() + from, count,
                      parts.begin() + part * 16 + 2 + at);
        };
        rt::ParamPart(param, part, 2).forRuns(0, cut, copy);
        rt::ParamPart(param, part, 2).forRuns(cut, 12, copy);
      }
    // Each element is read again from where it was put.
    param.offset = 2;
    std::vector<float> again(20);
    rt::forStored(
        param, 2, 16, {0, 20}, [&](int64_t from, int64_t at, int64_t count) {
          std::copy_n(parts.begin() + from, count, again.begin() + at);
        });
    EXPECT_EQ(again, whole);
    EXPECT_EQ(std::count(parts.begin(), parts.end(), 9.0f), 40 - 20 + 1);
    rt::ParamPart last(param, 1, 2);
    EXPECT_EQ(last.runOf(dim, 1).whole, 4);
    EXPECT_EQ(last.runOf(dim, 1).count, 1);
    EXPECT_EQ(last.runOf(dim, 2).whole, -1);
    auto bytes = [](const std::vector<float> &values) {
      return reinterpret_cast<const uint8_t *>(values.data());
    };
    uint64_t hash = rt::SectionHash({param}, rt::StateArray::Master, SHX_F32,
                                    /*matrixLength=*/0, /*tensor=*/2,
                                    /*length=*/16)
                        .of(bytes(parts), 0, 40);
    param.split.reset();
    param.offset = 0;
    param.shape[size_t(dim)] = 5;
    EXPECT_EQ(rt::SectionHash({param}, rt::StateArray::Master, SHX_F32)
                  .of(bytes(whole), 0, 20),
              hash);
  }
}

TEST(StateHash, SeesEveryElementAndNoPadding) {
  shardonnx::Manifest::Param param;
  param.name = "w";
  param.offset = 4;
  param.shape = {3};
  std::vector<float> values = {9, 9, 9, 9, 1, 2, 3, 9};
  auto hashOf = [&](int64_t begin, int64_t end) {
    return rt::SectionHash({param}, rt::StateArray::Master, SHX_F32)
        .of(reinterpret_cast<const uint8_t *>(&values[size_t(begin)]), begin,
            end - begin);
  };
  uint64_t whole = hashOf(0, 8);
  EXPECT_EQ(hashOf(0, 5) + hashOf(5, 8), whole);
  EXPECT_EQ(hashOf(0, 4) + hashOf(7, 8), 0u);
  values[0] = 1;
  EXPECT_EQ(hashOf(0, 8), whole);
  std::swap(values[4], values[5]);
  EXPECT_NE(hashOf(0, 8), whole);
}

// ---- Ends

// A folder stands where rank 1 wants to write: it alone fails, and what rank 0
// has written goes, too.
TEST_F(Checkpoints, ASaveThatFailsOnOneRankLeavesNothing) {
  std::string partial = folder / "c/step-00000004.partial";
  fs::create_directories(partial + "/rank-00001.safetensors/full");
  std::vector<std::string> saving = {"--save", folder / "c", "--save-every",
                                     "2"};
  Finished f = train("table_f32", 2, 8, saving);
  EXPECT_EQ(f.code, 1);
  EXPECT_NE(f.err.find("error: rank 1: cannot write '" + partial),
            std::string::npos)
      << f.err;
  EXPECT_EQ(namesIn("c"), (std::vector<std::string>{"step-00000002",
                                                    "step-00000004.partial"}));
  EXPECT_EQ(namesIn("c/step-00000004.partial"),
            std::vector<std::string>{"rank-00001.safetensors"});
  fs::remove_all(partial);
  saving.insert(saving.end(), {"--resume", folder / "c"});
  f = good("table_f32", 2, 4, saving);
  EXPECT_EQ(f.err.find("not finished"), std::string::npos) << f.err;
  EXPECT_EQ(namesIn("c"),
            (std::vector<std::string>{"step-00000002", "step-00000004"}));
}

// The index cannot be written, when all ranks have written their files.
TEST_F(Checkpoints, ASaveThatCannotBePublishedLeavesNothing) {
  std::string partial = folder / "c/step-00000004.partial";
  fs::create_directories(partial + "/index.json/full");
  Finished f =
      train("table_f32", 2, 8, {"--save", folder / "c", "--save-every", "2"});
  EXPECT_EQ(f.code, 1);
  EXPECT_NE(f.err.find("error: rank 0: cannot write '" + partial),
            std::string::npos)
      << f.err;
  EXPECT_EQ(namesIn("c/step-00000004.partial"),
            std::vector<std::string>{"index.json"});
}

class Killed : public Checkpoints {
protected:
  Process start(const std::string &pause) {
    return Process(
        command("table_f32",
                {"--steps", "1000000", "--nproc", "2", "--save", folder / "c",
                 "--resume", folder / "c", "--save-every", "2", "--keep", "2",
                 "--log", folder / "l.jsonl"}),
        folder, {{"TABLE_PAUSE_US", pause}});
  }
  int64_t newestWhole() {
    int64_t newest = 0;
    if (fs::exists(folder / "c"))
      for (const std::string &name : namesIn("c"))
        if (name.find(".partial") == std::string::npos)
          newest = std::max<int64_t>(newest, std::stoll(name.substr(5)));
    return newest;
  }
};

// SHARDONNX_TEST_KILLS says how often.
TEST_F(Killed, AtAnyMomentAWholeCheckpointStays) {
  const char *asked = std::getenv("SHARDONNX_TEST_KILLS");
  int kills = asked ? std::atoi(asked) : 8;
  uint32_t random = 12345;
  for (int i = 0; i < kills; ++i) {
    int64_t newest = newestWhole();
    Process process = start("300");
    // Half of them while it starts, half after it has saved something.
    if (i % 2 == 1) {
      EXPECT_TRUE(waitUntil([&] { return newestWhole() > newest; }));
    }
    random = random * 1664525u + 1013904223u;
    ::usleep(random % 500'000);
    std::vector<int> ranks = process.children();
    ::kill(process.pid(), SIGKILL); // the ranks die with their launcher
    Finished f = process.wait();
    EXPECT_TRUE(waitUntil(
        [&] { return std::all_of(ranks.begin(), ranks.end(), hasEnded); }));
    EXPECT_EQ(f.err.find("error"), std::string::npos) << f.err;
    EXPECT_EQ(f.err.find("(it is left out)"), std::string::npos) << f.err;
    if (newest > 0 && !f.out.empty()) {
      EXPECT_NE(f.out.find(": step " + std::to_string(newest) + ","),
                std::string::npos)
          << f.out;
    }
    EXPECT_GE(newestWhole(), newest);
  }
  int64_t newest = newestWhole();
  EXPECT_GT(newest, 0);
  Finished f = good("table_f32", 3, static_cast<int>(newest) + 2,
                    {"--resume", folder / "c"});
  EXPECT_NE(f.out.find(": step " + std::to_string(newest) + ","),
            std::string::npos);
}

TEST_F(Killed, SigtermFinishesTheStepAndSaves) {
  Process process = start("5000");
  EXPECT_TRUE(
      waitUntil([&] { return readFile(folder / "l.jsonl").size() > 500; }));
  ::kill(process.pid(), SIGTERM);
  Finished f = process.wait();
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("stopped by SIGTERM after step "), std::string::npos);
  int64_t last = readLog(folder / "l.jsonl").back()["step"];
  EXPECT_EQ(newestWhole(), last);
  EXPECT_NE(f.out.find("after step " + std::to_string(last) + "\n"),
            std::string::npos)
      << f.out;
  EXPECT_NE(f.out.find("\ngo on with: "), std::string::npos) << f.out;
  EXPECT_NE(f.out.find(" --resume " + (folder / "c") + "\n"), std::string::npos)
      << f.out;
}

} // namespace
