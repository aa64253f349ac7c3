// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rank 0 listens, the leaders say hello, rank 0 answers with the table of who
// is where. Anybody can connect to a port: a stray connection is dropped when
// its first bytes are not a hello, and holds nobody up when they do not come.

#include "Machines.h"
#include "../support/Error.h"
#include "Control.h"
#include "StoreClient.h"
#include "shardonnx/runtime/ABI.h"
#include "shardonnx/runtime/Layout.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

namespace shardonnx::rt {
namespace {

constexpr uint32_t kMagic = 0x4D485853; // "SXHM"
constexpr double kSecondsForHello = 5;  // what a stray connection gets
constexpr size_t kMaxStrays = 256;      // at a time
constexpr size_t kMaxHostName = 64;
constexpr size_t kTokenBytes = 16;

struct Hello {
  uint32_t magic = kMagic, abi = SHX_ABI_VERSION;
  int32_t rank = 0, worldSize = 0, pid = 0;
  uint32_t reserved = 0;
  uint64_t program = 0, options = 0, job = 0;
  uint8_t token[kTokenBytes] = {}; // rank 0's, where a store tells it
  uint8_t ranks[kMaxRanks / 8] = {};
  char host[kMaxHostName] = {};

  bool has(int r) const { return ranks[r / 8] >> (r % 8) & 1; }
  std::string hostName() const {
    return std::string(host, strnlen(host, sizeof(host)));
  }
};

struct Answer {
  uint32_t magic = kMagic;
  uint32_t verdict = 0;
  uint32_t bytes = 0; // of the table, or of the message, that follows
};
enum Verdict : uint32_t {
  Met,
  Refused,  // and rank 0 says so
  Stranger, // rank 0's run goes on without this one
};

std::string hostName() {
  char name[kMaxHostName] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0)
    return "unknown";
  return name;
}

// What rank 0 leaves in the store: version, address, port, token. All runs of
// one agent have their own keys, and so have restarts.
std::string storeKey(const RankInfo &info) {
  return "shardonnx/meeting" + info.job;
}

std::string hexOf(const uint8_t *bytes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    for (int shift : {4, 0})
      text += "0123456789abcdef"[bytes[i] >> shift & 15];
  return text;
}

bool fromHex(const std::string &text, uint8_t *bytes, size_t count) {
  if (text.size() != 2 * count)
    return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char *digits = "0123456789abcdef";
    const char *at = std::strchr(digits, text[i]);
    if (!at || !*at)
      return false;
    bytes[i / 2] = static_cast<uint8_t>(bytes[i / 2] << 4 | (at - digits));
  }
  return true;
}

void publish(const RankInfo &info, int listener, Hello &ours, double deadline) {
  StoreClient store(info.master, deadline);
  if (::getrandom(ours.token, sizeof(ours.token), 0) !=
      static_cast<ssize_t>(sizeof(ours.token)))
    fail("cannot draw a random number: ", systemError());
  std::string address = store.address();
  store.set(storeKey(info),
            concat("1 ", address.empty() ? info.master.host : address, ' ',
                   portOf(listener), ' ', hexOf(ours.token, kTokenBytes)));
}

Endpoint lookUp(const RankInfo &info, Hello &ours, double deadline) {
  std::string value = StoreClient(info.master, deadline).get(storeKey(info));
  std::istringstream words(value);
  std::string token;
  int version = 0, port = 0;
  Endpoint at;
  if (!(words >> version >> at.host >> port >> token) || version != 1 ||
      port < 1 || port > 65535 || !fromHex(token, ours.token, kTokenBytes))
    fail("torchrun's store at ", describe(info.master),
         " holds no address of rank 0 of this version of shardonnx");
  at.port = static_cast<uint16_t>(port);
  return at;
}

void answerWith(int connection, Verdict verdict, const std::string &text) {
  Answer answer;
  answer.verdict = verdict;
  answer.bytes = static_cast<uint32_t>(text.size());
  double deadline = monotonicSeconds() + kSecondsForHello;
  // A peer that is gone shows on its connection soon enough.
  if (sendAll(connection, &answer, sizeof(answer), deadline))
    sendAll(connection, text.data(), text.size(), deadline);
}

class Host {
public:
  Host(const RankInfo &info, const MeetingRequest &request, Hello hello)
      : info(info), ours(hello), seconds(request.machinesTimeoutSeconds),
        deadline(monotonicSeconds() + seconds) {
    machines.push_back({ours, FileDescriptor()});
    Endpoint at = info.master;
    if (info.agentKeepsStore) // it holds the port itself
      at = {"", 0};
    listener = listenAt(at);
    if (info.agentKeepsStore)
      publish(info, listener.get(), ours, deadline);
  }

  MachinesMet meet() {
    while (!missing().empty()) {
      if (monotonicSeconds() > deadline)
        refuse(concat("rank ", missing(), " did not come within ", seconds,
                      " s: start as many processes on every machine as the "
                      "launcher announces"));
      look();
    }
    std::sort(machines.begin(), machines.end(),
              [](auto &a, auto &b) { return a.hello.rank < b.hello.rank; });
    MachinesMet met;
    met.table.machineOf.resize(static_cast<size_t>(info.worldSize));
    for (size_t m = 0; m < machines.size(); ++m) {
      met.table.hosts.push_back(machines[m].hello.hostName());
      for (int r = 0; r < info.worldSize; ++r)
        if (machines[m].hello.has(r))
          met.table.machineOf[static_cast<size_t>(r)] =
              static_cast<uint16_t>(m);
    }
    std::string packed = met.table.pack();
    for (Machine &machine : machines)
      if (machine.connection) {
        answerWith(machine.connection.get(), Verdict::Met, packed);
        met.peers.push_back({machine.hello.rank, std::move(machine.connection),
                             /*remote=*/true});
      }
    return met;
  }

private:
  struct Machine {
    Hello hello;
    FileDescriptor connection;
  };
  // Has connected, and not said all of its hello yet.
  struct Caller {
    FileDescriptor connection;
    double deadline;
    size_t received = 0;
    Hello hello;
  };

  std::string missing() const {
    std::string list;
    for (int r = 0; r < info.worldSize; ++r)
      if (std::none_of(machines.begin(), machines.end(),
                       [&](const Machine &m) { return m.hello.has(r); }))
        list += (list.empty() ? "" : ", ") + std::to_string(r);
    return list;
  }

  void look() {
    std::vector<pollfd> fds = {{listener.get(), POLLIN, 0}};
    for (Caller &caller : callers)
      fds.push_back({caller.connection.get(), POLLIN, 0});
    constexpr int kMilliseconds = 200;
    ::poll(fds.data(), fds.size(), kMilliseconds);
    for (size_t i = 0; i < callers.size(); ++i)
      if (fds[i + 1].revents)
        readCaller(callers[i]);
    double now = monotonicSeconds();
    callers.erase(std::remove_if(callers.begin(), callers.end(),
                                 [&](const Caller &s) {
                                   return !s.connection || s.deadline < now;
                                 }),
                  callers.end());
    if (fds[0].revents && callers.size() < kMaxStrays)
      if (FileDescriptor c{
              ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)})
        callers.push_back({std::move(c), now + kSecondsForHello, 0, {}});
  }

  void readCaller(Caller &caller) {
    ssize_t n =
        ::recv(caller.connection.get(),
               reinterpret_cast<char *>(&caller.hello) + caller.received,
               sizeof(Hello) - caller.received, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
      return;
    caller.received += static_cast<size_t>(std::max<ssize_t>(n, 0));
    bool odd =
        caller.received >= sizeof(kMagic) && caller.hello.magic != kMagic;
    if (n <= 0 || odd)
      caller.connection = FileDescriptor();
    else if (caller.received == sizeof(Hello))
      admit(caller);
  }

  void admit(Caller &caller) {
    const Hello &theirs = caller.hello;
    FileDescriptor connection = std::move(caller.connection);
    // Of another run, which happens to use the same port.
    if (theirs.job != ours.job ||
        std::memcmp(theirs.token, ours.token, kTokenBytes) != 0) {
      answerWith(connection.get(), Verdict::Stranger,
                 "the process at MASTER_ADDR:MASTER_PORT belongs to another "
                 "run: choose another MASTER_PORT");
      return;
    }
    std::string objection = objectionTo(theirs);
    if (!objection.empty()) {
      answerWith(connection.get(), Verdict::Refused, objection);
      refuse(objection);
    }
    enableKeepAlive(connection.get());
    machines.push_back({theirs, std::move(connection)});
  }

  std::string objectionTo(const Hello &theirs) const {
    std::string who = concat("rank ", theirs.rank, " (host ", theirs.hostName(),
                             ", process ", theirs.pid, ") ");
    if (theirs.abi != ours.abi || theirs.program != ours.program)
      return who + "runs another program than rank 0: start the same "
                   "executable on every machine";
    if (theirs.worldSize != ours.worldSize)
      return who + concat("was told of ", theirs.worldSize,
                          " ranks, rank 0 of ", ours.worldSize);
    if (theirs.options != ours.options)
      return who + "was given other options than rank 0: give all ranks the "
                   "same command line";
    if (theirs.rank < 1 || theirs.rank >= ours.worldSize ||
        !theirs.has(theirs.rank))
      return who + concat("is outside the world of ", ours.worldSize);
    for (int r = 0; r < static_cast<int>(kMaxRanks); ++r) {
      if (!theirs.has(r))
        continue;
      if (r >= ours.worldSize)
        return who + concat("is with rank ", r, ", outside the world of ",
                            ours.worldSize);
      for (const Machine &machine : machines)
        if (machine.hello.has(r))
          return concat("rank ", r, " is there twice: on host ",
                        machine.hello.hostName(), " and on host ",
                        theirs.hostName());
    }
    return "";
  }

  [[noreturn]] void refuse(const std::string &message) {
    for (Machine &machine : machines)
      if (machine.connection)
        answerWith(machine.connection.get(), Verdict::Refused, message);
    throw Error(message, kExitFailure);
  }

  const RankInfo &info;
  Hello ours;
  double seconds, deadline;
  FileDescriptor listener;
  std::vector<Machine> machines;
  std::vector<Caller> callers;
};

MachinesMet joinMachines(const RankInfo &info, const MeetingRequest &request,
                         Hello ours) {
  double deadline = monotonicSeconds() + request.machinesTimeoutSeconds;
  Endpoint at =
      info.agentKeepsStore ? lookUp(info, ours, deadline) : info.master;
  FileDescriptor connection = connectTo(at, deadline);
  enableKeepAlive(connection.get());
  Answer answer;
  // Rank 0 waits for the others meanwhile, and says so itself when in vain.
  double patience = monotonicSeconds() + 2 * request.machinesTimeoutSeconds;
  constexpr uint32_t kMaxBytes = kMaxRanks * (kMaxHostName + 8);
  if (!sendAll(connection.get(), &ours, sizeof(ours), deadline) ||
      !receiveAll(connection.get(), &answer, sizeof(answer), patience) ||
      answer.magic != kMagic || answer.bytes > kMaxBytes)
    fail("rank ", info.rank, ": rank 0 at ", describe(at),
         " ended before the machines had met, or is another program");
  std::string text(answer.bytes, '\0');
  if (!receiveAll(connection.get(), &text[0], text.size(), patience))
    fail("rank ", info.rank, ": rank 0 at ", describe(at),
         " ended before the machines had met");
  if (answer.verdict != Verdict::Met)
    throw Error(text, answer.verdict == Verdict::Refused ? kExitFollows
                                                         : kExitFailure);
  std::optional<MachineTable> table =
      MachineTable::unpack(text, info.worldSize);
  if (!table)
    fail("rank 0 at ", describe(at), " sent a table of machines that is none");
  MachinesMet met;
  met.table = std::move(*table);
  met.peers.push_back({0, std::move(connection), /*remote=*/true});
  return met;
}

} // namespace

MachinesMet meetMachines(const RankInfo &info, const MeetingRequest &request,
                         const std::vector<int> &localRanks) {
  if (info.severalMachines() && info.master.host.empty())
    fail("the ranks given by ", info.launcher,
         " are on several machines: set "
         "MASTER_ADDR to the host of rank 0 and MASTER_PORT to a free port of "
         "it on all of them (mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=29500)");
  Hello ours;
  ours.rank = info.rank;
  ours.worldSize = info.worldSize;
  ours.pid = ::getpid();
  ours.program = fnv1a(request.program);
  ours.options = fnv1a(request.options);
  ours.job = fnv1a(info.job);
  for (int r : localRanks)
    ours.ranks[r / 8] |= static_cast<uint8_t>(1 << r % 8);
  hostName().copy(ours.host, sizeof(ours.host) - 1);
  if (!info.severalMachines()) {
    MachinesMet met;
    met.table.machineOf.resize(static_cast<size_t>(info.worldSize));
    met.table.hosts.push_back(ours.hostName());
    return met;
  }
  return info.rank == 0 ? Host(info, request, ours).meet()
                        : joinMachines(info, request, ours);
}

std::vector<int> MachineTable::ranksOf(size_t machine) const {
  std::vector<int> ranks;
  for (size_t r = 0; r < machineOf.size(); ++r)
    if (machineOf[r] == machine)
      ranks.push_back(static_cast<int>(r));
  return ranks;
}

// Two bytes a rank, then the hosts' names, each ended by a zero.
std::string MachineTable::pack() const {
  std::string bytes(reinterpret_cast<const char *>(machineOf.data()),
                    machineOf.size() * sizeof(uint16_t));
  for (const std::string &host : hosts)
    bytes += host + '\0';
  return bytes;
}

std::optional<MachineTable> MachineTable::unpack(const std::string &bytes,
                                                 int worldSize) {
  MachineTable table;
  size_t at = static_cast<size_t>(worldSize) * sizeof(uint16_t);
  if (bytes.size() < at)
    return std::nullopt;
  table.machineOf.resize(static_cast<size_t>(worldSize));
  std::memcpy(table.machineOf.data(), bytes.data(), at);
  while (at < bytes.size()) {
    size_t end = bytes.find('\0', at);
    if (end == std::string::npos)
      return std::nullopt;
    table.hosts.push_back(bytes.substr(at, end - at));
    at = end + 1;
  }
  for (uint16_t machine : table.machineOf)
    if (machine >= table.hosts.size())
      return std::nullopt;
  return table;
}

} // namespace shardonnx::rt
