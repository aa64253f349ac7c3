// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ranks of several "machines" on this one: how they meet, what they exchange,
// how a run ends, what strangers at the port can do, and torchrun's store.

#include "comm/Control.h"
#include "comm/NodeList.h"
#include "comm/StoreClient.h"
#include "runtime/OneError.h"
#include "support/Error.h"
#include <algorithm>
#include <arpa/inet.h>
#include <csignal>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace shardonnx::rt;
using namespace shardonnx::test;

namespace {

TEST(NodeList, FirstHost) {
  EXPECT_EQ(firstHost("gpu1"), "gpu1");
  EXPECT_EQ(firstHost("gpu1,gpu2"), "gpu1");
  EXPECT_EQ(firstHost("gpu[01-04,7],login"), "gpu01");
  EXPECT_EQ(firstHost("gpu[7,9]"), "gpu7");
  EXPECT_EQ(firstHost("rack[2-3]-gpu[08-09].site.org"), "rack2-gpu08.site.org");
  EXPECT_EQ(firstHost("gpu[01"), std::nullopt);
  EXPECT_EQ(firstHost("gpu[]"), std::nullopt);
  EXPECT_EQ(firstHost("gpu[a-b]"), std::nullopt);
  EXPECT_EQ(firstHost("gpu;rm"), std::nullopt);
  EXPECT_EQ(firstHost(""), std::nullopt);
}

TEST(NodeList, Counts) {
  EXPECT_EQ(countOfNode("4(x2),3", 0), 4);
  EXPECT_EQ(countOfNode("4(x2),3", 1), 4);
  EXPECT_EQ(countOfNode("4(x2),3", 2), 3);
  EXPECT_EQ(countOfNode("4(x2),3", 3), std::nullopt);
  EXPECT_EQ(countOfNode("8", 0), 8);
  for (const char *bad : {"", "x", "4(x2", "4(2)", "4(x)", "-4", "4;3"})
    EXPECT_EQ(countOfNode(bad, 1), std::nullopt) << bad;
  EXPECT_EQ(countOfNode("99999999999", 0), std::nullopt);
}

// What was recorded between PyTorch's own client and store (2.15): the bytes
// after its greeting, whose second part (a ping) a client may leave out.
struct Turn {
  std::string heard, said;
};
const std::vector<Turn> kRecorded = {
    {std::string("\x00\xce\xf7\x85\x3c", 5), ""},
    {std::string("\x01\x02\0\0\0\0\0\0\0/k\x05\0\0\0\0\0\0\0value", 24), ""},
    {std::string("\x06\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0/k", 19),
     std::string(1, '\0')},
    {std::string("\x03\x02\0\0\0\0\0\0\0/k", 11),
     std::string("\x05\0\0\0\0\0\0\0value", 13)},
};

// Plays its part of such a conversation, once.
class Store {
public:
  explicit Store(std::vector<Turn> turns) : turns(std::move(turns)) {
    listener = std::move(listenAt({"127.0.0.1", 0}).front());
    thread = std::thread([this] { play(); });
  }
  ~Store() { thread.join(); }
  Endpoint endpoint() const { return {"127.0.0.1", portOf(listener.get())}; }
  bool asRecorded = false;

private:
  void play() {
    double deadline = monotonicSeconds() + 10;
    FileDescriptor c(::accept(listener.get(), nullptr, nullptr));
    for (const Turn &turn : turns) {
      std::string heard(turn.heard.size(), '\0');
      if (!receiveAll(c.get(), &heard[0], heard.size(), deadline) ||
          heard != turn.heard)
        return;
      sendAll(c.get(), turn.said.data(), turn.said.size(), deadline);
    }
    asRecorded = true;
  }
  std::vector<Turn> turns;
  FileDescriptor listener;
  std::thread thread;
};

TEST(StoreClient, SpeaksAsRecorded) {
  Store store(kRecorded);
  StoreClient client(store.endpoint(), monotonicSeconds() + 10);
  client.set("k", "value");
  EXPECT_EQ(client.get("k"), "value");
  EXPECT_EQ(client.address(), ""); // loopback means nothing to others
}

TEST(StoreClient, DoubtsWhatItIsTold) {
  std::vector<Turn> turns = {kRecorded[0], kRecorded[2], kRecorded[3]};
  turns[2].said = std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8);
  Store huge(turns);
  StoreClient client(huge.endpoint(), monotonicSeconds() + 10);
  EXPECT_THROW(client.get("k"), Error);
  turns[1].said = "\x01";
  turns.pop_back();
  Store cancels(turns);
  StoreClient other(cancels.endpoint(), monotonicSeconds() + 10);
  EXPECT_THROW(other.get("k"), Error);
}

// The ranks of a run: `layout[m]` of them on machine m, in order.
class Machines : public testing::Test {
protected:
  void start(std::vector<int> layout, Environment more = {},
             const std::string &host = "127.0.0.1") {
    int world = 0, rank = 0;
    for (int ranks : layout)
      world += ranks;
    for (size_t m = 0; m < layout.size(); ++m)
      for (int local = 0; local < layout[m]; ++local, ++rank)
        startRank(rank, world, local, layout[m], static_cast<int>(m), more,
                  host);
  }
  void startRank(int rank, int world, int local, int locals, int machine,
                 Environment more = {}, const std::string &host = "127.0.0.1",
                 const std::string &options = "") {
    Environment e = {{"RANK", std::to_string(rank)},
                     {"WORLD_SIZE", std::to_string(world)},
                     {"LOCAL_RANK", std::to_string(local)},
                     {"LOCAL_WORLD_SIZE", std::to_string(locals)},
                     {"GROUP_RANK", std::to_string(machine)},
                     {"MASTER_ADDR", host},
                     {"MASTER_PORT", std::to_string(port)},
                     {"TORCHELASTIC_RUN_ID", folder.path}};
    e.insert(e.end(), more.begin(), more.end());
    processes.emplace_back(
        std::vector<std::string>{SHX_TEST_PROGRAMS "/meeting", options}, folder,
        e);
  }
  std::vector<Finished> wait() {
    std::vector<Finished> all;
    for (Process &process : processes)
      all.push_back(process.wait());
    return all;
  }
  // All but `victim` fail, and one line tells why.
  void expectOneError(const std::string &part, size_t victim = 99) {
    std::string text;
    double begin = now();
    std::vector<Finished> all = wait();
    EXPECT_LT(now() - begin, 30);
    for (size_t r = 0; r < all.size(); ++r) {
      if (r != victim) {
        EXPECT_NE(all[r].code, 0) << r;
      }
      text += all[r].err;
    }
    shardonnx::test::expectOneError(text, part);
  }
  // Until the ranks have met and talked.
  void waitForWords() {
    EXPECT_TRUE(waitUntil([&] {
      return std::none_of(processes.begin(), processes.end(),
                          [](const Process &process) {
                            return readFile(process.output()).empty();
                          });
    }));
  }
  Folder folder;
  uint16_t port = freePort();
  std::vector<Process> processes;
};

TEST_F(Machines, MeetInEveryLayout) {
  for (const std::vector<int> &layout :
       {std::vector<int>{1}, {3}, {1, 1}, {2, 2}, {1, 3}, {3, 1, 2}, {1, 1, 1}})
    for (const char *host : {"127.0.0.1", "::1", "localhost"}) {
      start(layout, {}, host);
      std::vector<Finished> all = wait();
      size_t rank = 0;
      for (size_t m = 0; m < layout.size(); ++m)
        for (int local = 0; local < layout[m]; ++local, ++rank) {
          EXPECT_EQ(all[rank].code, 0) << all[rank].err;
          EXPECT_EQ(all[rank].out,
                    concat("rank ", rank, " of ", all.size(), " on machine ", m,
                           " of ", layout.size(), "\n"));
        }
      processes.clear();
    }
}

TEST_F(Machines, AFailureIsToldOnce) {
  for (size_t rank = 0; rank < 4; ++rank) {
    start({2, 2},
          {{"MEETING_FAIL", std::to_string(rank)}, {"MEETING_PAUSE", "60"}});
    expectOneError(concat("rank ", rank, ": broken"));
    processes.clear();
  }
}

TEST_F(Machines, ADeathIsToldOnce) {
  for (const std::vector<int> &layout : {std::vector<int>{2, 2}, {1, 1, 1}})
    for (size_t victim = 0; victim < (layout[0] == 2 ? 4u : 3u); ++victim) {
      start(layout, {{"MEETING_PAUSE", "60"}});
      waitForWords();
      ::kill(processes[victim].pid(), SIGKILL);
      expectOneError(concat("rank ", victim, " ("), victim);
      processes.clear();
    }
}

TEST_F(Machines, ASignalToOneEndsAll) {
  start({1, 2}, {{"MEETING_PAUSE", "60"}});
  waitForWords();
  ::kill(processes[2].pid(), SIGTERM);
  expectOneError("stopped by SIGTERM");
}

TEST_F(Machines, OtherOptionsAreRefused) {
  startRank(0, 3, 0, 2, 0);
  startRank(1, 3, 1, 2, 0);
  startRank(2, 3, 0, 1, 1, {}, "127.0.0.1", "--steps=3");
  expectOneError("rank 2 (host ");
}

TEST_F(Machines, AMissingMachineIsNamed) {
  Environment patience = {{"MEETING_TIMEOUT", "2"}};
  startRank(0, 4, 0, 1, 0, patience);
  startRank(1, 4, 0, 1, 1, patience);
  expectOneError("rank 2, 3 did not come within 2 s");
}

TEST_F(Machines, RanksThatAreTwiceAreNamed) {
  startRank(0, 3, 0, 1, 0);
  startRank(1, 3, 0, 1, 1);
  startRank(1, 3, 0, 1, 2);
  expectOneError("rank 1 is there twice");
}

// Whoever connects without being asked changes nothing.
TEST_F(Machines, StrangersDoNoHarm) {
  startRank(0, 2, 0, 1, 0);
  std::vector<FileDescriptor> strangers;
  double deadline = monotonicSeconds() + 10;
  for (const std::string &words :
       {std::string(), std::string("GET / HTTP/1.0\r\n\r\n"), std::string("SX"),
        std::string(100'000, '\xff'),
        std::string("SXHM") + std::string(100'000, '\0')}) {
    strangers.push_back(connectTo({"127.0.0.1", port}, deadline));
    sendAll(strangers.back().get(), words.data(), words.size(), deadline);
  }
  startRank(1, 2, 0, 1, 1);
  double begin = now();
  for (const Finished &f : wait())
    EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_LT(now() - begin, 15); // ranks are waited for 20 s
}

// One that says the right words, of another run or forged: with a secret it is
// dropped whatever it says, without one the rank that it claims to be may still
// come.
TEST_F(Machines, AForgedHelloDoesNotEndTheRun) {
  Environment plain = {{"TORCHELASTIC_RUN_ID", ""}};
  Environment ours = plain, others = plain;
  ours.emplace_back("SHARDONNX_SECRET", "ours");
  others.emplace_back("SHARDONNX_SECRET", "theirs");
  struct Case {
    const Environment &run, &stranger;
    const char *says, *warns;
  };
  for (const Case &c :
       {Case{plain, plain, "was given other options than rank 0",
             "is sent away, since rank 1 (host "},
        Case{ours, others, "was given another SHARDONNX_SECRET",
             "does not know this run's secret"},
        Case{ours, plain, "was given another SHARDONNX_SECRET",
             "does not know this run's secret"}}) {
    startRank(0, 2, 0, 1, 0, c.run);
    startRank(1, 2, 0, 1, 1, c.stranger, "127.0.0.1", "--steps=3");
    Finished stranger = processes.back().wait();
    processes.pop_back();
    EXPECT_EQ(stranger.code, 1);
    shardonnx::test::expectOneError(stranger, c.says);
    startRank(1, 2, 0, 1, 1, c.run);
    std::vector<Finished> all = wait();
    for (const Finished &f : all)
      EXPECT_EQ(f.code, 0) << f.err;
    EXPECT_NE(all[0].err.find(c.warns), std::string::npos) << all[0].err;
    EXPECT_EQ(all[0].err.find("ours"), std::string::npos);
    processes.clear();
    port = freePort();
  }
}

// A rank that errs is known by the secret: the run ends at once.
TEST_F(Machines, WithASecretOtherOptionsAreRefused) {
  Environment secret = {{"TORCHELASTIC_RUN_ID", ""},
                        {"SHARDONNX_SECRET", "ours"}};
  startRank(0, 2, 0, 1, 0, secret);
  startRank(1, 2, 0, 1, 1, secret, "127.0.0.1", "--steps=3");
  expectOneError("was given other options than rank 0");
}

TEST(Socket, AHostIsListenedAtAlone) {
  for (const char *host : {"127.0.0.1", "localhost"})
    for (const FileDescriptor &listener : listenAt({host, 0})) {
      std::string address = localAddress(listener.get());
      EXPECT_TRUE(address == "127.0.0.1" || address == "::1") << address;
    }
}

TEST_F(Machines, WithoutAnAddressTheUserIsTold) {
  for (int rank : {0, 1})
    processes.emplace_back(
        std::vector<std::string>{SHX_TEST_PROGRAMS "/meeting"}, folder,
        Environment{{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
                    {"OMPI_COMM_WORLD_SIZE", "2"},
                    {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                    {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  for (const Finished &f : wait()) {
    EXPECT_EQ(f.code, 1);
    EXPECT_NE(f.err.find("set MASTER_ADDR"), std::string::npos) << f.err;
  }
}

TEST_F(Machines, SlurmTellsWhere) {
  for (int rank : {0, 1, 2})
    processes.emplace_back(
        std::vector<std::string>{SHX_TEST_PROGRAMS "/meeting"}, folder,
        Environment{{"SLURM_PROCID", std::to_string(rank)},
                    {"SLURM_NTASKS", "3"},
                    {"SLURM_JOB_ID", std::to_string(::getpid())},
                    {"SLURM_STEP_ID", "0"},
                    {"SLURM_NNODES", "2"},
                    {"SLURM_NODEID", rank == 2 ? "1" : "0"},
                    {"SLURM_LOCALID", rank == 1 ? "1" : "0"},
                    {"SLURM_STEP_TASKS_PER_NODE", "2,1"},
                    {"SLURM_STEP_NODELIST", "localhost,elsewhere"}});
  for (const Finished &f : wait())
    EXPECT_EQ(f.code, 0) << f.err;
}

} // namespace
