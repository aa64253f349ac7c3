// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whole runs of hand-written programs on 1 to 4 ranks: the losses, the log,
// and how runs end that do not end well.

#include "runtime/TableRuns.h"
#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sched.h>
#include <set>
#include <unistd.h>

using namespace shardonnx::test;

namespace {

struct Variant {
  const char *program;
  bool bf16;
};
class Losses : public Runs, public testing::WithParamInterface<Variant> {};

TEST_P(Losses, FollowTheReferenceAtEveryWorldSize) {
  // 24 samples a step: batch 2 × ranks × accumulation.
  std::vector<TableStep> reference =
      trainTable(weights, tableTokens(), 24, 20, 0.01, GetParam().bf16);
  for (int ranks = 1; ranks <= 4; ++ranks)
    for (bool debug : {false, true}) {
      std::vector<std::string> options;
      if (debug)
        options.push_back("--debug-memory");
      expectReference(GetParam().program, ranks, reference, options);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Programs, Losses,
    testing::Values(Variant{"table_f32", false}, Variant{"table_bf16", true},
                    Variant{"table_f32_replicated", false},
                    Variant{"table_bf16_replicated", true}),
    [](const auto &info) { return std::string(info.param.program); });

TEST_F(Runs, TheSameCommandGivesTheSameBits) {
  expectSameBits("table_bf16", {"--nproc", "3", "--shuffle"});
}

TEST_F(Runs, TheLogHasTheContractsFields) {
  Finished f = run("table_f32", {"--steps", "2", "--nproc", "2", "--log",
                                 folder / "log.jsonl"});
  ASSERT_EQ(f.code, 0) << f.err;
  Json line = readLog(folder / "log.jsonl")[1];
  for (const char *key :
       {"step", "loss", "grad_norm", "lr", "tokens", "step_ms", "tokens_per_s",
        "tflops", "mfu", "peak_bytes", "pss_bytes"})
    EXPECT_TRUE(line.contains(key)) << key;
  EXPECT_EQ(line.size(), 11u);
  EXPECT_EQ(line["tokens"], 2 * 2 * 8);
  EXPECT_TRUE(line["mfu"].is_null());
  EXPECT_GT(line["pss_bytes"], 0);
  EXPECT_NE(f.out.find("done: 2 steps"), std::string::npos);
}

TEST_F(Runs, EvaluationIsTheSameAtEveryWorldSize) {
  std::vector<uint16_t> some = tableTokens();
  some.resize(1001); // 125 samples: the last round is not full
  folder.write("e.bin", bytesOf(some));
  double reference = 0;
  for (int ranks = 1; ranks <= 4; ++ranks) {
    Finished f = run("table_f32",
                     {"--steps", "4", "--lr", "0", "--nproc",
                      std::to_string(ranks), "--eval-data", folder / "e.bin",
                      "--eval-every", "2", "--log", folder / "log.jsonl"});
    ASSERT_EQ(f.code, 0) << f.err;
    std::vector<Json> log = readLog(folder / "log.jsonl");
    EXPECT_FALSE(log[0].contains("eval_loss"));
    double loss = log[1]["eval_loss"];
    EXPECT_EQ(log[3]["eval_loss"], log[1]["eval_loss"]); // lr is 0
    if (ranks == 1)
      reference = loss;
    EXPECT_NEAR(loss / reference, 1, 1e-5);
  }
}

TEST_F(Runs, NoDecayIsByWholeName) {
  auto lastLoss = [&](std::vector<std::string> more,
                      const std::string &decay = "5") {
    more.insert(more.begin(), {"--steps", "20", "--weight-decay", decay,
                               "--log", folder / "log.jsonl"});
    Finished f = run("table_f32", more);
    EXPECT_EQ(f.code, 0) << f.err;
    return readLog(folder / "log.jsonl").back()["loss"].get<double>();
  };
  double all = lastLoss({}), partial = lastLoss({"--no-decay", "weight"}),
         none = lastLoss({"--no-decay", ".*\\.(weight|bias)"});
  EXPECT_EQ(all, partial); // no parameter is called just that
  EXPECT_NE(all, none);
  EXPECT_EQ(none, lastLoss({}, "0"));
}

TEST_F(Runs, MistakesOnTheCommandLineExitWithTwo) {
  for (std::vector<std::string> options :
       {std::vector<std::string>{"--saves", "x"},
        {"--save-every", "2"}, // where is not said
        {"--keep", "2"},
        {"--steps", "0"},
        {"--schedule", "exponential"},
        {"--betas", "0.9"},
        {"--no-decay", "("},
        {"--eval-every", "3"},
        {"--nproc", "0"},
        {"--steps", "010"}, // not 8
        {"--data", folder / "t.txt"},
        {"--nproc", "2", "--data", folder / "t.txt"},
        {"--data-dtype", "u8"}}) {
    Finished f = run("table_f32", options);
    EXPECT_EQ(f.code, 2) << options[0];
    expectOneError(f, "");
  }
}

TEST_F(Runs, WhatIsIgnoredIsTold) {
  struct Case {
    std::vector<std::string> options;
    const char *warning;
  };
  for (const Case &c :
       {Case{{}, ""}, Case{{"--momentum", "0.9"}, "--momentum is ignored"},
        Case{{"--min-lr", "0.001"}, "--min-lr is ignored"},
        Case{{"--init", "random"}, "--model is ignored"},
        Case{{"--no-decay", "weight"}, "matches no trainable parameter"}}) {
    std::vector<std::string> options = {"--steps", "1", "--nproc", "2"};
    options.insert(options.end(), c.options.begin(), c.options.end());
    Finished f = run("table_f32", options);
    EXPECT_EQ(f.code, 0) << f.err;
    EXPECT_NE(f.err.find(c.warning), std::string::npos) << f.err;
    EXPECT_EQ(linesOf(f.err).size(), c.options.empty() ? 0u : 1u) << f.err;
  }
}

// Whatever this machine has, a rank's cores are those it may use.
TEST_F(Runs, TooFewCoresAreTold) {
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
  CPU_ZERO(&one);
  int first = 0;
  while (!CPU_ISSET(first, &before))
    ++first;
  CPU_SET(first, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
  Finished crowded = run("table_f32", {"--steps", "1", "--nproc", "2"});
  Finished alone = run("table_f32", {"--steps", "1", "--nproc", "1"});
  ASSERT_EQ(::sched_setaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(crowded.code, 0);
  EXPECT_EQ(crowded.err, "table_f32: warning: 2 ranks share 1 cores: one "
                         "thread each, and slow\n");
  EXPECT_TRUE(linesOf(crowded.err).empty());
  EXPECT_EQ(alone.code, 0);
  EXPECT_EQ(alone.err, "");
}

TEST_F(Runs, OneRankTellsWhatIsWrong) {
  Finished f = run("table_f32", {"--nproc", "3", "--log", "/dev/null/l.jsonl"});
  EXPECT_EQ(f.code, 1);
  expectOneError(f, "cannot write the log '/dev/null/l.jsonl'");
  f = run("table_f32", {"--nproc", "2", "--log", "/dev/full"});
  EXPECT_EQ(f.code, 1);
  expectOneError(f, "No space left on device");
  f = run("table_f32", {"--nproc", "4", "--data", folder / "none.bin"});
  EXPECT_EQ(f.code, 1);
  expectOneError(f, "cannot open");
  std::vector<uint16_t> bad = tableTokens();
  bad[100] = 300;
  folder.write("bad.bin", bytesOf(bad));
  f = run("table_f32", {"--nproc", "2", "--data", folder / "bad.bin"});
  EXPECT_EQ(f.code, 1);
  expectOneError(f, "token 300 at position 100");
}

class Ends : public Runs {
protected:
  // A run that lasts for minutes, and has begun.
  Process startLong(std::vector<std::string> more,
                    const std::string &timeout = "600") {
    more.insert(more.end(), {"--steps", "10000", "--timeout", timeout});
    return Process(command("table_f32", more), folder,
                   {{"TABLE_PAUSE_US", "20000"}});
  }
  std::vector<int> waitForRanks(const Process &process, size_t ranks) {
    waitUntil([&] {
      return process.children().size() == ranks &&
             readFile(folder / "log.jsonl").size() > 500;
    });
    return process.children();
  }
  void expectAlive(const std::vector<int> &ranks) {
    for (int pid : ranks)
      EXPECT_EQ(::kill(pid, 0), 0) << pid;
  }
  void expectGone(const std::vector<int> &ranks) {
    for (int pid : ranks)
      EXPECT_NE(::kill(pid, 0), 0) << pid;
  }
};

// Of every rank, the dead one among them, what it last took part in.
void expectFlights(const std::string &path, size_t failed,
                   const std::vector<int> &processes) {
  nlohmann::json record = nlohmann::json::parse(readFile(path));
  EXPECT_EQ(record["failed_rank"], failed);
  ASSERT_EQ(record["ranks"].size(), processes.size());
  for (const nlohmann::json &rank : record["ranks"]) {
    EXPECT_EQ(rank["process"], processes[rank["rank"].get<size_t>()]);
    const nlohmann::json &list = rank["collectives"];
    ASSERT_GT(list.size(), 8u);
    std::set<std::string> seen;
    for (const nlohmann::json &one : list) {
      seen.insert(one["collective"]);
      EXPECT_GT(one["bytes"], 0);
      if (one["state"] == "done") {
        EXPECT_GE(one["issued_s"].get<double>(), one["begun_s"].get<double>());
        EXPECT_GE(one["begun_s"].get<double>(), one["ended_s"].get<double>());
      }
    }
    for (const char *collective :
         {"all-gather", "reduce-scatter", "gradient norm", "loss"})
      EXPECT_EQ(seen.count(collective), 1u) << collective;
    EXPECT_EQ(list[0]["state"], "done");
  }
}

TEST_F(Ends, AKilledRankEndsAllAndIsNamed) {
  for (size_t victim : {0u, 1u, 2u}) {
    std::string flights = folder / "flights.json";
    Process process = startLong({"--nproc", "3", "--log", folder / "log.jsonl",
                                 "--flight-record", flights});
    std::vector<int> ranks = waitForRanks(process, 3);
    ASSERT_EQ(ranks.size(), 3u);
    double killed = now();
    ::kill(ranks[victim], SIGKILL);
    Finished f = process.wait();
    EXPECT_EQ(f.code, 1);
    EXPECT_LT(now() - killed, 30);
    expectOneError(f, "rank " + std::to_string(victim) + " (process " +
                          std::to_string(ranks[victim]) +
                          ") was killed by signal 9");
    EXPECT_NE(f.err.find(", in step "), std::string::npos) << f.err;
    EXPECT_NE(f.err.find("last collectives are in '" + flights + "'"),
              std::string::npos)
        << f.err;
    expectFlights(flights, victim, ranks);
    expectGone(ranks);
    std::string log = readFile(folder / "log.jsonl");
    EXPECT_EQ(log.back(), '\n'); // no half line
    folder.write("log.jsonl", "");
  }
}

// Sends signals, some of which are one request, until a process has gone.
bool interruptUntilGone(int to, int pid) {
  return waitUntil([&] {
    ::kill(to, SIGINT);
    return ::kill(pid, 0) != 0;
  });
}

// A rank that stands still does not finish its step.
TEST_F(Ends, ASecondSignalEndsAllRanks) {
  Process process = startLong({"--nproc", "2", "--log", folder / "log.jsonl"});
  std::vector<int> ranks = waitForRanks(process, 2);
  ASSERT_EQ(ranks.size(), 2u);
  ::kill(ranks[1], SIGSTOP);
  EXPECT_TRUE(interruptUntilGone(process.pid(), ranks[0]));
  ::kill(ranks[1], SIGCONT);
  Finished f = process.wait();
  EXPECT_EQ(f.code, 1);
  expectOneError(f, "stopped by SIGINT");
  expectGone(ranks);
}

// Whoever is sent it: the launcher, or a rank.
TEST_F(Ends, AFirstSignalLetsTheStepFinish) {
  for (auto [to, signal] :
       {std::pair(-1, SIGTERM), std::pair(0, SIGTERM), std::pair(1, SIGTERM),
        std::pair(-1, SIGINT), std::pair(0, SIGINT)}) {
    Process process =
        startLong({"--nproc", "2", "--log", folder / "log.jsonl"});
    std::vector<int> ranks = waitForRanks(process, 2);
    ASSERT_EQ(ranks.size(), 2u);
    ::kill(to < 0 ? process.pid() : ranks[size_t(to)], signal);
    Finished f = process.wait();
    EXPECT_EQ(f.code, 0) << f.err;
    EXPECT_TRUE(linesOf(f.err).empty()) << f.err;
    std::string name = signal == SIGINT ? "SIGINT" : "SIGTERM";
    EXPECT_NE(f.out.find("stopped by " + name + " after step "),
              std::string::npos)
        << f.out;
    expectGone(ranks);
    folder.write("log.jsonl", "");
  }
}

TEST_F(Ends, ARankThatIsStoppedIsNamed) {
  for (size_t victim : {0u, 1u}) {
    Process process =
        startLong({"--nproc", "2", "--log", folder / "log.jsonl"});
    std::vector<int> ranks = waitForRanks(process, 2);
    ASSERT_EQ(ranks.size(), 2u);
    double killed = now();
    ::kill(ranks[1 - victim], SIGSTOP); // or the step would finish
    EXPECT_TRUE(interruptUntilGone(ranks[victim], ranks[victim]));
    ::kill(ranks[1 - victim], SIGCONT);
    Finished f = process.wait();
    EXPECT_EQ(f.code, 1);
    EXPECT_LT(now() - killed, 30);
    expectOneError(f, "rank " + std::to_string(victim) + " (process " +
                          std::to_string(ranks[victim]) +
                          ") was stopped by SIGINT");
    expectGone(ranks);
    folder.write("log.jsonl", "");
  }
}

TEST_F(Ends, AHangEndsWithASentence) {
  Process process =
      startLong({"--nproc", "2", "--log", folder / "log.jsonl"}, "2");
  std::vector<int> ranks = waitForRanks(process, 2);
  ASSERT_EQ(ranks.size(), 2u);
  double stopped = now();
  ::kill(ranks[1], SIGSTOP);
  Finished f = process.wait();
  EXPECT_EQ(f.code, 1);
  EXPECT_LT(now() - stopped, 30);
  expectOneError(f, "rank 1 (process " + std::to_string(ranks[1]) + ")");
  EXPECT_NE(f.err.find("rank 0 has been waiting for the "), std::string::npos)
      << f.err;
  EXPECT_NE(f.err.find(", in step "), std::string::npos) << f.err;
  expectGone(ranks);
}

// Long before anybody's patience ends.
TEST_F(Ends, AStoppedRankIsNamedAndEnds) {
  for (size_t victim : {0u, 1u}) {
    Process process =
        startLong({"--nproc", "3", "--log", folder / "log.jsonl"}, "6");
    std::vector<int> ranks = waitForRanks(process, 3);
    ASSERT_EQ(ranks.size(), 3u);
    double stopped = now();
    ::kill(ranks[victim], SIGSTOP);
    Finished f = process.wait();
    EXPECT_EQ(f.code, 1);
    EXPECT_LT(now() - stopped, 25);
    expectOneError(f, "rank " + std::to_string(victim) + " (process " +
                          std::to_string(ranks[victim]) +
                          ") was stopped (SIGSTOP or SIGTSTP)");
    EXPECT_NE(f.err.find(", in step "), std::string::npos) << f.err;
    expectGone(ranks);
    folder.write("log.jsonl", "");
  }
}

// One that is stopped while it waits leaves a machine whose ranks all wait, and
// yet do not wait for each other.
TEST_F(Ends, ARankThatIsStoppedInAWaitIsNoDeadlock) {
  Process process =
      startLong({"--nproc", "2", "--log", folder / "log.jsonl"}, "600");
  std::vector<int> ranks = waitForRanks(process, 2);
  ASSERT_EQ(ranks.size(), 2u);
  ::kill(ranks[0], SIGSTOP);
  ::sleep(2); // rank 1 comes to wait for it
  ::kill(ranks[1], SIGSTOP);
  ::kill(ranks[0], SIGCONT);
  Finished f = process.wait();
  EXPECT_EQ(f.code, 1);
  expectOneError(f, "rank 1 (process " + std::to_string(ranks[1]) +
                        ") was stopped (SIGSTOP or SIGTSTP)");
  expectGone(ranks);
}

// The job as a whole is stopped and goes on (Ctrl-Z, fg).
TEST_F(Ends, StoppingAllRanksEndsNothing) {
  Process process =
      startLong({"--nproc", "2", "--log", folder / "log.jsonl"}, "4");
  std::vector<int> ranks = waitForRanks(process, 2);
  ASSERT_EQ(ranks.size(), 2u);
  for (int pid : ranks)
    ::kill(pid, SIGSTOP);
  ::sleep(4);
  for (int pid : ranks)
    ::kill(pid, SIGCONT);
  size_t before = readFile(folder / "log.jsonl").size();
  EXPECT_TRUE(waitUntil(
      [&] { return readFile(folder / "log.jsonl").size() > before; }));
  expectAlive(ranks);
  ::kill(process.pid(), SIGINT);
  process.wait();
}

// As torchrun starts them: no launcher of ours that could know more.
class Torchrun : public Runs {
protected:
  Process rank(int rank, int world, const std::string &program,
               std::vector<std::string> more, const std::string &id) {
    more.insert(more.end(), {"--log", folder / "log.jsonl"});
    return Process(command(program, more), folder,
                   {{"RANK", std::to_string(rank)},
                    {"LOCAL_RANK", std::to_string(rank)},
                    {"WORLD_SIZE", std::to_string(world)},
                    {"LOCAL_WORLD_SIZE", std::to_string(world)},
                    {"TORCHELASTIC_RUN_ID", id + folder.path},
                    {"OMP_NUM_THREADS", "1"},
                    {"TABLE_PAUSE_US", "10000"}});
  }
  int64_t stepsLogged() {
    std::string log = readFile(folder / "log.jsonl");
    return std::count(log.begin(), log.end(), '\n');
  }
};

TEST_F(Torchrun, RanksMeetAndTheDeadIsNamed) {
  std::vector<std::string> few = {"--steps", "3"};
  Process a = rank(0, 2, "table_f32", few, "1");
  Process b = rank(1, 2, "table_f32", few, "1");
  Finished f = a.wait();
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_EQ(b.wait().code, 0);

  std::vector<std::string> many = {"--steps", "10000"};
  Process c = rank(0, 3, "table_f32", many, "2");
  Process d = rank(1, 3, "table_f32", many, "2");
  Process e = rank(2, 3, "table_f32", many, "2");
  // The log of the run before had three steps.
  EXPECT_TRUE(waitUntil([&] { return stepsLogged() > 3; }));
  double killed = now();
  ::kill(d.pid(), SIGKILL);
  Finished first = c.wait(), last = e.wait();
  EXPECT_EQ(first.code, 1);
  EXPECT_EQ(last.code, 1);
  EXPECT_LT(now() - killed, 30);
  expectOneError(first.err + last.err, "rank 1 (process");
  d.wait();
}

TEST_F(Torchrun, DifferentProgramsAreRefused) {
  Process a = rank(0, 2, "table_f32", {"--steps", "3"}, "3");
  Process b = rank(1, 2, "table_f32", {"--steps", "4"}, "3");
  Finished f = a.wait(), g = b.wait();
  EXPECT_EQ(f.code, 1);
  EXPECT_EQ(g.code, 1);
  expectOneError(f.err + g.err, "rank 1 (process");
  EXPECT_NE(f.err.find("other options"), std::string::npos) << f.err;
}

} // namespace
