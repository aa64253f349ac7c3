// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rank 0 listens and sends who connects a challenge, the leaders answer with
// their hello and a proof that they know the run's key, rank 0 with the table
// of who is where and a proof of its own. Anybody can connect to a port: who
// has no proof, or does not say hello in time, is dropped, named, and holds
// nobody up. The key itself never travels.

#include "Machines.h"
#include "../support/Error.h"
#include "Control.h"
#include "StoreClient.h"
#include "shardonnx/runtime/ABI.h"
#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/Sha256.h"
#include <algorithm>
#include <array>
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
// Where nothing tells ours from strangers, how long the rank that a hello does
// not fit may still come by itself.
constexpr double kSecondsOfDoubt = 25;
constexpr int kMostWarnings = 8; // of strangers

using Nonce = std::array<uint8_t, 32>;
using Proof = Sha256::Digest;

struct Challenge {
  uint32_t magic = kMagic;
  Nonce nonce = {};
};

struct Hello {
  uint32_t magic = kMagic, abi = SHX_ABI_VERSION;
  int32_t rank = 0, worldSize = 0, pid = 0;
  uint32_t reserved = 0;
  uint64_t program = 0, options = 0;
  Nonce nonce = {};
  Proof proof = {}; // of all the rest, and the challenge
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
  Proof proof = {};   // of both, and the nonces
};
enum Verdict : uint32_t {
  Met,
  Refused,  // and rank 0 says so
  Doubted,  // refused, while rank 0 goes on waiting
  Stranger, // rank 0's run goes on without this one
};

Nonce drawNonce() {
  Nonce nonce;
  if (::getrandom(nonce.data(), nonce.size(), 0) !=
      static_cast<ssize_t>(nonce.size()))
    fail("cannot draw a random number: ", systemError());
  return nonce;
}

template <typename T> std::string bytesOf(const T &value) {
  return {reinterpret_cast<const char *>(&value), sizeof(value)};
}

/// What the ranks of this run know: the user's secret, the launcher's job, rank
/// 0's token in the store.
class RunKey {
public:
  RunKey(const RankInfo &info, const std::string &token)
      : known(!info.secret.empty() || info.hasJobId || !token.empty()) {
    for (const std::string &part : {info.secret, info.job, token})
      key += std::to_string(part.size()) + ':' + part;
  }

  /// Whether others do not: a proof then tells ours from strangers.
  bool isOurs() const { return known; }

  Proof prove(Hello hello, const Challenge &challenge) const {
    hello.proof = {};
    return hmacSha256(key, "hello" + bytesOf(challenge.nonce) + bytesOf(hello));
  }
  Proof prove(Answer answer, const std::string &text,
              const Challenge &challenge, const Nonce &theirs) const {
    answer.proof = {};
    return hmacSha256(key, "answer" + bytesOf(challenge.nonce) +
                               bytesOf(theirs) + bytesOf(answer) + text);
  }

private:
  std::string key;
  bool known;
};

// In a time that does not tell where they differ.
bool equal(const Proof &a, const Proof &b) {
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

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

// Rank 0's token, which it leaves where it listens.
struct Meeting {
  Endpoint at;
  std::string token;
};

std::string drawToken() {
  Nonce nonce = drawNonce();
  return hexOf(nonce.data(), kTokenBytes);
}

Meeting lookUp(const RankInfo &info, double deadline) {
  std::string value = StoreClient(info.master, deadline).get(storeKey(info));
  std::istringstream words(value);
  int version = 0, port = 0;
  Meeting meeting;
  if (!(words >> version >> meeting.at.host >> port >> meeting.token) ||
      version != 2 || port < 1 || port > 65535 ||
      meeting.token.size() != 2 * kTokenBytes)
    fail("torchrun's store at ", describe(info.master),
         " holds no address of rank 0 of this version of shardonnx");
  meeting.at.port = static_cast<uint16_t>(port);
  return meeting;
}

// Answers that fit into what a socket takes: a stranger holds nobody up.
void answerWith(int connection, const Answer &answer, const std::string &text) {
  double deadline = monotonicSeconds() + kSecondsForHello;
  // A peer that is gone shows on its connection soon enough.
  if (sendAll(connection, &answer, sizeof(answer), deadline))
    sendAll(connection, text.data(), text.size(), deadline);
}

class Host {
public:
  Host(const RankInfo &info, const MeetingRequest &request, Hello hello)
      : info(info), ours(hello), seconds(request.machinesTimeoutSeconds),
        deadline(monotonicSeconds() + seconds), key(open()) {
    machines.push_back({ours, {}, FileDescriptor()});
  }

  MachinesMet meet() {
    while (!missing().empty()) {
      if (monotonicSeconds() > deadline)
        refuse(!doubt.empty()
                   ? doubt
                   : concat("rank ", missing(), " did not come within ",
                            seconds,
                            " s: start as many processes on every machine as "
                            "the launcher announces"));
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
        answer(machine, Verdict::Met, packed);
        met.peers.push_back({machine.hello.rank, std::move(machine.connection),
                             /*remote=*/true});
      }
    return met;
  }

private:
  struct Machine {
    Hello hello;
    Challenge challenge;
    FileDescriptor connection;
  };
  // Has connected, and not said all of its hello yet.
  struct Caller {
    FileDescriptor connection;
    std::string address;
    double deadline;
    Challenge challenge;
    size_t received = 0;
    Hello hello;
  };

  // Listens, and says in the store where.
  RunKey open() {
    if (!info.agentKeepsStore) {
      listeners = listenAt(info.master);
      return RunKey(info, "");
    }
    StoreClient store(info.master, deadline); // it holds the port itself
    std::string own = store.address();
    Endpoint at = {own.empty() ? info.master.host : own, 0};
    listeners = listenAt(at);
    std::string token = drawToken();
    store.set(storeKey(info),
              concat("2 ", at.host, ' ', portOf(listeners.front().get()), ' ',
                     token));
    return RunKey(info, token);
  }

  void answer(const Machine &machine, Verdict verdict,
              const std::string &text) const {
    Answer answer;
    answer.verdict = verdict;
    answer.bytes = static_cast<uint32_t>(text.size());
    answer.proof =
        key.prove(answer, text, machine.challenge, machine.hello.nonce);
    answerWith(machine.connection.get(), answer, text);
  }

  void warn(const std::string &what) {
    if (warnings++ < kMostWarnings)
      printWarning(what);
  }

  std::string missing() const {
    std::string list;
    for (int r = 0; r < info.worldSize; ++r)
      if (std::none_of(machines.begin(), machines.end(),
                       [&](const Machine &m) { return m.hello.has(r); }))
        list += (list.empty() ? "" : ", ") + std::to_string(r);
    return list;
  }

  void look() {
    std::vector<pollfd> fds;
    for (Caller &caller : callers)
      fds.push_back({caller.connection.get(), POLLIN, 0});
    for (FileDescriptor &listener : listeners)
      fds.push_back({listener.get(), POLLIN, 0});
    constexpr int kMilliseconds = 200;
    ::poll(fds.data(), fds.size(), kMilliseconds);
    failIfStopped();
    size_t known = callers.size();
    for (size_t i = 0; i < known; ++i)
      if (fds[i].revents)
        readCaller(callers[i]);
    double now = monotonicSeconds();
    for (Caller &caller : callers)
      if (caller.connection && caller.deadline < now)
        drop(caller, "said nothing that a rank says");
    for (size_t i = known; i < fds.size(); ++i)
      if (fds[i].revents)
        welcome(fds[i].fd);
    callers.erase(std::remove_if(callers.begin(), callers.end(),
                                 [](const Caller &c) { return !c.connection; }),
                  callers.end());
  }

  // Of too many at a time the first gives way.
  void welcome(int listener) {
    FileDescriptor c(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (!c)
      return;
    if (callers.size() >= kMaxStrays)
      callers.erase(callers.begin());
    Caller caller{std::move(c), "", monotonicSeconds() + kSecondsForHello,
                  {},           0,  {}};
    caller.address = peerAddress(caller.connection.get());
    caller.challenge.nonce = drawNonce();
    if (sendAll(caller.connection.get(), &caller.challenge,
                sizeof(caller.challenge), caller.deadline))
      callers.push_back(std::move(caller));
  }

  void drop(Caller &caller, const std::string &why) {
    warn(concat("a stranger at ", caller.address, " ", why,
                ": it is dropped, the run goes on"));
    caller.connection = FileDescriptor();
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
      drop(caller, "said nothing that a rank says");
    else if (caller.received == sizeof(Hello))
      admit(caller);
  }

  void admit(Caller &caller) {
    const Hello &theirs = caller.hello;
    // Of another run, which happens to use the same port, or forged.
    if (!equal(theirs.proof, key.prove(theirs, caller.challenge))) {
      Machine stranger{theirs, caller.challenge, std::move(caller.connection)};
      answer(stranger, Verdict::Stranger, "");
      drop(caller,
           concat("claims to be rank ", theirs.rank, " (host ",
                  theirs.hostName(), ") and does not know this run's secret"));
      return;
    }
    Machine machine{theirs, caller.challenge, std::move(caller.connection)};
    std::string objection = objectionTo(theirs);
    if (objection.empty()) {
      enableKeepAlive(machine.connection.get());
      machines.push_back(std::move(machine));
      return;
    }
    answer(machine, key.isOurs() ? Verdict::Refused : Verdict::Doubted,
           objection);
    if (key.isOurs())
      refuse(objection);
    // Anybody may have said it: the rank itself may still come.
    if (doubt.empty())
      deadline = std::min(deadline, monotonicSeconds() + kSecondsOfDoubt);
    doubt = objection;
    warn(concat("a process at ", caller.address, " is sent away, since ",
                objection,
                " (with the same SHARDONNX_SECRET on all machines, only ranks "
                "of this run are listened to)"));
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
        answer(machine, Verdict::Refused, message);
    throw Error(message, kExitFailure);
  }

  const RankInfo &info;
  Hello ours;
  double seconds, deadline;
  std::vector<FileDescriptor> listeners;
  const RunKey key;
  std::vector<Machine> machines;
  std::vector<Caller> callers;
  std::string doubt; // what was said against a rank that may be a stranger
  int warnings = 0;
};

struct Verified {
  Verdict verdict;
  std::string text;
};

// Says hello and waits for the answer.
Verified greet(const RankInfo &info, const Endpoint &at, const RunKey &key,
               int connection, Hello ours, double deadline, double patience) {
  constexpr uint32_t kMaxBytes = kMaxRanks * (kMaxHostName + 8);
  std::string who = concat("rank ", info.rank, ": rank 0 at ", describe(at));
  Challenge challenge;
  Answer answer;
  bool asked = receiveAll(connection, &challenge, sizeof(challenge), deadline);
  if (!asked || challenge.magic != kMagic)
    fail(who, " ended before the machines had met, or is another program");
  ours.nonce = drawNonce();
  ours.proof = key.prove(ours, challenge);
  if (!sendAll(connection, &ours, sizeof(ours), deadline) ||
      !receiveAll(connection, &answer, sizeof(answer), patience) ||
      answer.magic != kMagic || answer.bytes > kMaxBytes)
    fail(who, " ended before the machines had met, or is another program");
  std::string text(answer.bytes, '\0');
  if (!receiveAll(connection, &text[0], text.size(), patience))
    fail(who, " ended before the machines had met");
  if (!equal(answer.proof, key.prove(answer, text, challenge, ours.nonce)))
    fail("the process at ", describe(at),
         " belongs to another run, or was given another SHARDONNX_SECRET: "
         "choose another MASTER_PORT, or give all ranks the same secret");
  return {static_cast<Verdict>(answer.verdict), text};
}

MachinesMet joinMachines(const RankInfo &info, const MeetingRequest &request,
                         const Hello &ours) {
  double deadline = monotonicSeconds() + request.machinesTimeoutSeconds;
  Meeting meeting =
      info.agentKeepsStore ? lookUp(info, deadline) : Meeting{info.master, ""};
  const Endpoint &at = meeting.at;
  FileDescriptor connection = connectTo(at, deadline);
  enableKeepAlive(connection.get());
  // Rank 0 waits for the others meanwhile, and says so itself when in vain.
  double patience = monotonicSeconds() + 2 * request.machinesTimeoutSeconds;
  auto [verdict, text] = greet(info, at, RunKey(info, meeting.token),
                               connection.get(), ours, deadline, patience);
  if (verdict != Verdict::Met)
    throw Error(text,
                verdict == Verdict::Refused ? kExitFollows : kExitFailure);
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
