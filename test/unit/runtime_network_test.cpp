// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whole runs of hand-written programs with ranks on several "machines" of this
// one: shared memory within each, Gloo between them. Losses as on one machine,
// and how runs end that do not end well.

#include "comm/Control.h"
#include "comm/Route.h"
#include "comm/Socket.h"
#include "gloo/Image.h"
#include "runtime/TableRuns.h"
#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <netinet/in.h>
#include <optional>
#include <set>
#include <sstream>
#include <thread>
#include <unistd.h>

using namespace shardonnx;
using namespace shardonnx::rt;
using namespace shardonnx::test;

namespace {

TEST(Route, EachSliceGoesToEachMachineOnce) {
  // Ranks by machine, in odd orders and sizes.
  const std::vector<std::vector<uint16_t>> placements = {
      {0, 0, 1, 1}, {0, 1, 0, 1}, {0, 0, 0, 1}, {0, 1, 1, 2, 2, 2}, {0, 1, 2}};
  for (const std::vector<uint16_t> &machineOf : placements) {
    auto ranks = static_cast<int>(machineOf.size());
    std::vector<int> members(machineOf.size());
    for (int r = 0; r < ranks; ++r)
      members[static_cast<size_t>(r)] = r;
    // [owner][machine]: how many ranks carry the slice there.
    std::vector<std::vector<int>> carriers(members.size(),
                                           std::vector<int>(3, 0));
    for (int r = 0; r < ranks; ++r) {
      Route route = routeOf(members, machineOf, r);
      for (size_t owner : route.carried) {
        ++carriers[owner][machineOf[static_cast<size_t>(r)]];
        std::vector<int> told =
            routeOf(members, machineOf, members[owner]).carriers;
        EXPECT_EQ(std::count(told.begin(), told.end(), r), 1);
      }
    }
    for (int owner = 0; owner < ranks; ++owner)
      for (uint16_t m = 0; m < 3; ++m) {
        bool elsewhere = m != machineOf[static_cast<size_t>(owner)] &&
                         std::count(machineOf.begin(), machineOf.end(), m) > 0;
        EXPECT_EQ(carriers[static_cast<size_t>(owner)][m], elsewhere ? 1 : 0);
      }
  }
}

class Networks : public Runs {
protected:
  // `layout[m]` ranks on machine m.
  std::vector<Process> start(const std::vector<int> &layout,
                             const std::string &program,
                             const std::vector<std::string> &more) {
    std::string port = std::to_string(freePort());
    int world = 0, rank = 0;
    for (int ranks : layout)
      world += ranks;
    std::vector<Process> processes;
    for (size_t m = 0; m < layout.size(); ++m)
      for (int local = 0; local < layout[m]; ++local) {
        Environment environment = {
            {"RANK", std::to_string(rank++)},
            {"WORLD_SIZE", std::to_string(world)},
            {"LOCAL_RANK", std::to_string(local)},
            {"LOCAL_WORLD_SIZE", std::to_string(layout[m])},
            {"GROUP_RANK", std::to_string(m)},
            {"MASTER_ADDR", firstHost},
            {"MASTER_PORT", port},
            {"SHARDONNX_NUM_THREADS", "1"},
            {"TORCHELASTIC_RUN_ID", folder.path},
            {"TABLE_PAUSE_US", pause}};
        std::vector<std::string> words = command(program, more);
        if (m < hosts.size())
          words.insert(words.begin(),
                       {"/usr/bin/env", "ip", "netns", "exec", hosts[m]});
        processes.emplace_back(words, folder, environment);
      }
    return processes;
  }
  static Finished waitForAll(std::vector<Process> &processes) {
    Finished all{0, "", ""};
    for (Process &process : processes) {
      Finished f = process.wait();
      all.code = std::max(all.code, f.code);
      all.err += f.err;
    }
    return all;
  }
  // Until the run has logged some steps.
  bool waitForSteps() const {
    return waitUntil(
        [&] { return readFile(folder / "log.jsonl").size() > 500; });
  }
  std::vector<Json> losses(const std::vector<int> &layout,
                           const std::string &program,
                           std::vector<std::string> more) {
    more.insert(more.end(), {"--log", folder / "log.jsonl"});
    std::vector<Process> processes = start(layout, program, more);
    Finished f = waitForAll(processes);
    EXPECT_EQ(f.code, 0) << f.err;
    return readLog(folder / "log.jsonl");
  }
  // The losses of `layout` are those of as many ranks on one machine.
  void expectSame(const std::string &program, const std::vector<int> &layout,
                  int ranks, const std::vector<std::string> &more) {
    std::vector<std::string> options = {"--steps", "10", "--accumulate", "2"};
    options.insert(options.end(), more.begin(), more.end());
    std::vector<Json> log = losses(layout, program, options);
    options.insert(options.end(), {"--nproc", std::to_string(ranks), "--log",
                                   folder / "alone.jsonl"});
    Finished f = run(program, options);
    ASSERT_EQ(f.code, 0) << f.err;
    std::vector<Json> alone = readLog(folder / "alone.jsonl");
    ASSERT_EQ(log.size(), alone.size()) << program;
    bool bf16 = program.find("f32") == std::string::npos;
    for (size_t s = 0; s < log.size(); ++s) {
      double loss = log[s]["loss"], norm = log[s]["grad_norm"];
      double theirs = alone[s]["loss"], theirNorm = alone[s]["grad_norm"];
      EXPECT_NEAR(loss / theirs, 1, bf16 ? 1e-3 : 1e-6) << program << s;
      EXPECT_NEAR(norm / theirNorm, 1, bf16 ? 1e-2 : 1e-5) << program << s;
    }
  }
  std::string pause = "0", firstHost = "127.0.0.1";
  std::vector<std::string> hosts; // network namespaces, by machine
};

// Two hosts with a cable between them: network namespaces of this machine.
class TwoHosts : public Networks {
protected:
  static constexpr const char *kLeft = "10.213.77.1", *kRight = "10.213.77.2";

  void SetUp() override {
    std::string id = std::to_string(::getpid());
    std::string a = "shxa" + id, b = "shxb" + id;
    if (!ip("netns add " + a) || !ip("netns add " + b))
      GTEST_SKIP() << "no network namespaces here: that takes root, "
                      "CAP_SYS_ADMIN and iproute2";
    hosts = {a, b};
    firstHost = kLeft;
    bool good = ip("link add " + a + " netns " + a + " type veth peer name " +
                   b + " netns " + b);
    for (auto &[host, address] : {std::pair{a, kLeft}, std::pair{b, kRight}})
      good = good && ip("-n " + host + " link set lo up") &&
             ip("-n " + host + " addr add " + address + "/24 dev " + host) &&
             ip("-n " + host + " link set " + host + " up");
    ASSERT_TRUE(good);
  }
  void TearDown() override {
    for (const std::string &host : hosts)
      ip("netns del " + host);
  }
  static bool ip(const std::string &words) {
    return std::system(("ip " + words + " >/dev/null 2>&1").c_str()) == 0;
  }
};

TEST_F(Networks, LossesAreThoseOfOneMachine) {
  for (const std::string program :
       {"table_f32", "table_bf16", "table_f32_replicated", "table_mixed",
        "table_bf16_kept", "table_f32_unsharded"}) {
    bool replicated = program.find("replicated") != std::string::npos;
    std::vector<std::string> shard;
    if (!replicated)
      shard = {"--replicas", "1"};
    expectSame(program, {1, 2}, 3, shard);
    expectSame(program, {1, 1, 1}, 3, shard);
  }
}

// A replica on each machine, two on each, and two over four machines.
TEST_F(Networks, ReplicasAddUpBetweenMachines) {
  for (const std::string program : {"table_f32", "table_bf16_kept"}) {
    expectSame(program, {2, 2}, 4, {"--replicas", "2"});
    expectSame(program, {2, 2}, 4, {"--replicas", "4"});
    expectSame(program, {1, 1, 1, 1}, 4, {"--replicas", "2"});
  }
  std::vector<Process> odd = start({2, 1}, "table_f32", {"--steps", "1"});
  Finished f = waitForAll(odd);
  EXPECT_EQ(f.code, 2);
  expectOneError(f, "different numbers of ranks");
}

TEST_F(Networks, TheSameCommandGivesTheSameBits) {
  std::vector<std::string> options = {"--steps", "8",          "--accumulate",
                                      "2",       "--replicas", "1"};
  std::vector<Json> first = losses({2, 2}, "table_f32", options),
                    second = losses({2, 2}, "table_f32", options);
  ASSERT_EQ(first.size(), 8u);
  for (size_t s = 0; s < first.size(); ++s) {
    EXPECT_EQ(first[s]["loss"], second[s]["loss"]);
    EXPECT_EQ(first[s]["grad_norm"], second[s]["grad_norm"]);
  }
}

TEST_F(Networks, PoisonedMemoryIsNotRead) {
  std::vector<Json> log =
      losses({2, 1}, "table_bf16",
             {"--steps", "6", "--debug-memory", "--replicas", "1"});
  ASSERT_EQ(log.size(), 6u);
  EXPECT_TRUE(log.back()["loss"].is_number());
}

// The sockets of this machine that listen, by inode.
std::set<std::string> listeningSockets() {
  std::set<std::string> inodes;
  for (const char *table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::istringstream lines(readFile(table));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::vector<std::string> all{std::istream_iterator<std::string>(words),
                                   {}};
      if (all.size() > 9 && all[3] == "0A")
        inodes.insert("socket:[" + all[9] + "]");
    }
  }
  return inodes;
}

// Ranks listen while they meet and connect alone.
TEST_F(Networks, NoPortIsOpenDuringARun) {
  namespace fs = std::filesystem;
  pause = "20000";
  std::vector<Process> processes = start(
      {1, 1}, "table_f32",
      {"--steps", "10000", "--replicas", "1", "--log", folder / "log.jsonl"});
  EXPECT_TRUE(waitForSteps());
  std::set<std::string> listening = listeningSockets();
  size_t sockets = 0;
  for (Process &process : processes) {
    std::string folder = "/proc/" + std::to_string(process.pid()) + "/fd";
    for (const fs::directory_entry &entry : fs::directory_iterator(folder)) {
      std::error_code ignored;
      std::string target = fs::read_symlink(entry.path(), ignored);
      sockets += target.rfind("socket:[", 0) == 0;
      EXPECT_EQ(listening.count(target), 0u) << target;
    }
  }
  EXPECT_GE(sockets, 4u); // of the meeting, and of Gloo
  // What ends one ends all.
  for (Process &process : processes)
    ::kill(process.pid(), SIGTERM);
  EXPECT_EQ(waitForAll(processes).code, 0);
}

// Two ranks that connect by Gloo, in threads. When all have said their
// addresses, and before any of them connects, `stranger` does.
class GlooPair {
public:
  explicit GlooPair(std::optional<std::string> strangerSays)
      : strangerSays(std::move(strangerSays)) {
    std::thread other([this] { open(1); });
    open(0);
    other.join();
    for (ShxGloo *gloo : opened)
      if (gloo)
        loadGloo().close(gloo);
  }
  bool isOpen(int rank) const { return opened[rank]; }
  std::string error(int rank) const { return errors[rank].text; }

private:
  struct Rank {
    GlooPair &pair;
    int rank;
  };

  void open(int rank) {
    int peer = 1 - rank;
    Rank user{*this, rank};
    opened[rank] = loadGloo().open(rank, 2, &peer, 1, "127.0.0.1", "",
                                   strangerSays ? 1 : 20, {&user, say, heard},
                                   &errors[rank]);
  }

  static void say(void *user, const char *bytes, size_t count) {
    auto &[pair, rank] = *static_cast<Rank *>(user);
    std::unique_lock<std::mutex> lock(pair.mutex);
    pair.said[rank].assign(bytes, count);
    if (!pair.said[1 - rank].empty())
      pair.connectStranger();
    pair.all = !pair.said[1 - rank].empty();
    pair.changed.notify_all();
    pair.changed.wait(lock, [&pair = pair] { return pair.all; });
  }
  static size_t heard(void *user, int peer, const char **bytes) {
    const std::string &text = static_cast<Rank *>(user)->pair.said[peer];
    *bytes = text.data();
    return text.size();
  }

  // At the ports where Gloo listens now.
  void connectStranger() {
    if (!strangerSays)
      return;
    for (const std::string &text : said) {
      sockaddr_in at{};
      std::memcpy(&at, text.data() + text.size() - kGlooAddress, sizeof(at));
      ASSERT_EQ(at.sin_family, AF_INET);
      double deadline = monotonicSeconds() + 10;
      strangers.push_back(
          connectTo({"127.0.0.1", ntohs(at.sin_port)}, deadline));
      sendAll(strangers.back().get(), strangerSays->data(),
              strangerSays->size(), deadline);
    }
    ::usleep(100'000); // until Gloo has seen them
  }

  // A sockaddr_storage and a number of its own, as Gloo has it.
  static constexpr size_t kGlooAddress =
      sizeof(sockaddr_storage) + sizeof(ssize_t);
  const std::optional<std::string> strangerSays;
  std::mutex mutex;
  std::condition_variable changed;
  bool all = false;
  std::string said[2];
  ShxGloo *opened[2] = {};
  ShxGlooError errors[2] = {};
  std::vector<FileDescriptor> strangers;
};

// Gloo takes who comes first; nobody takes it for a rank.
TEST(Gloo, AStrangerIsNoRank) {
  GlooPair alone(std::nullopt);
  EXPECT_TRUE(alone.isOpen(0) && alone.isOpen(1))
      << alone.error(0) << alone.error(1);
  for (const std::string &says : {std::string(), std::string(1000, '\xff')}) {
    GlooPair disturbed(says);
    EXPECT_FALSE(disturbed.isOpen(0) && disturbed.isOpen(1)) << says.size();
  }
}

struct End {
  size_t victim;
  int signal;
};
class Ends : public Networks, public testing::WithParamInterface<End> {};

// One message in all, wherever the victim was.
TEST_P(Ends, ADeadOrStoppedRankEndsAll) {
  auto [victim, signal] = GetParam();
  pause = "20000";
  std::vector<Process> processes =
      start({2, 1}, "table_f32",
            {"--steps", "10000", "--replicas", "1", "--timeout", "8", "--log",
             folder / "log.jsonl"});
  EXPECT_TRUE(waitForSteps());
  ::usleep(3'000'000); // its machine, each second, tells the others of a step
  double ended = now();
  ::kill(processes[victim].pid(), signal);
  // What nobody here can end: its own machine's ranks would, or its agent.
  std::string said;
  for (size_t r = 0; r < processes.size(); ++r) {
    if (r == victim)
      continue;
    Finished f = processes[r].wait();
    EXPECT_EQ(f.code, 1);
    EXPECT_LT(now() - ended, 30);
    said += f.err;
  }
  ::kill(processes[victim].pid(), SIGKILL);
  said += processes[victim].wait().err;
  expectOneError(said, "rank " + std::to_string(victim) + " (");
  EXPECT_NE(said.find(", in step "), std::string::npos) << said;
}

INSTANTIATE_TEST_SUITE_P(Networks, Ends,
                         testing::Values(End{0, SIGKILL}, End{1, SIGKILL},
                                         End{2, SIGKILL}, End{2, SIGSTOP},
                                         End{1, SIGSTOP}),
                         [](const auto &info) {
                           return (info.param.signal == SIGKILL ? "Killed"
                                                                : "Stopped") +
                                  std::to_string(info.param.victim);
                         });

TEST_F(TwoHosts, TrainTogether) {
  expectSame("table_f32", {2, 2}, 4, {"--replicas", "1"});
  expectSame("table_bf16", {2, 1}, 3, {"--replicas", "1"});
}

// No message gets through: each host speaks for itself.
TEST_F(TwoHosts, ACutCableEndsBoth) {
  pause = "20000";
  std::vector<Process> processes =
      start({1, 1}, "table_f32",
            {"--steps", "10000", "--replicas", "1", "--timeout", "8", "--log",
             folder / "log.jsonl"});
  EXPECT_TRUE(waitForSteps());
  double cut = now();
  ASSERT_TRUE(ip("-n " + hosts[1] + " link set " + hosts[1] + " down"));
  Finished left = processes[0].wait(), right = processes[1].wait();
  EXPECT_LT(now() - cut, 30);
  EXPECT_EQ(left.code, 1);
  EXPECT_EQ(right.code, 1);
  expectOneError(left, "rank 1 (host ");
  expectOneError(right, "rank 0 (host ");
}

// The same command line, and another file under the same name.
TEST_F(Networks, OtherDataIsNoticed) {
  Folder other;
  std::vector<uint16_t> tokens = tableTokens();
  folder.write("mine.bin", bytesOf(tokens));
  for (uint16_t &token : tokens)
    token ^= 1;
  other.write("mine.bin", bytesOf(tokens));
  std::string port = std::to_string(freePort());
  std::vector<Process> processes;
  for (const std::string rank : {"0", "1"}) {
    std::vector<std::string> words = command(
        "table_f32", {"--steps", "3", "--replicas", "1", "--data", "mine.bin"});
    words.insert(words.begin(), {"/usr/bin/env", "-C",
                                 rank == "0" ? folder.path : other.path});
    processes.emplace_back(words, folder,
                           Environment{{"RANK", rank},
                                       {"WORLD_SIZE", "2"},
                                       {"LOCAL_RANK", "0"},
                                       {"LOCAL_WORLD_SIZE", "1"},
                                       {"GROUP_RANK", rank},
                                       {"MASTER_ADDR", "127.0.0.1"},
                                       {"MASTER_PORT", port},
                                       {"SHARDONNX_NUM_THREADS", "1"}});
  }
  Finished f = waitForAll(processes);
  EXPECT_EQ(f.code, 1);
  expectOneError(f, "finds other data at --data than rank 0");
}

// Two nodes as srun would start them.
TEST_F(Networks, SlurmsVariablesAreEnough) {
  std::vector<Process> processes;
  std::string port = std::to_string(freePort());
  for (std::string node : {"0", "1"})
    processes.emplace_back(
        command("table_f32", {"--steps", "3", "--replicas", "1"}), folder,
        Environment{{"SLURM_JOB_ID", std::to_string(::getpid())},
                    {"SLURM_STEP_ID", "0"},
                    {"SLURM_PROCID", node},
                    {"SLURM_NTASKS", "2"},
                    {"SLURM_LOCALID", "0"},
                    {"SLURM_NODEID", node},
                    {"SLURM_STEP_NUM_NODES", "2"},
                    {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                    {"MASTER_ADDR", "127.0.0.1"},
                    {"MASTER_PORT", port},
                    {"SHARDONNX_NUM_THREADS", "1"}});
  Finished f = waitForAll(processes);
  EXPECT_EQ(f.code, 0) << f.err;
}

TEST_F(Networks, MpirunStartsRanks) {
  if (std::system("mpirun --version >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "no mpirun here";
  std::vector<std::string> words =
      command("table_f32", {"--steps", "3", "--log", folder / "log.jsonl"});
  words.insert(words.begin(), {"/usr/bin/env", "mpirun", "--allow-run-as-root",
                               "--oversubscribe", "-n", "3"});
  Finished f = Process(words, folder).wait();
  EXPECT_EQ(f.code, 0) << f.err;
  std::vector<Json> log = readLog(folder / "log.jsonl");
  ASSERT_EQ(log.size(), 3u);
  EXPECT_EQ(log[0]["tokens"], 2 * 8 * 3);
}

} // namespace
