// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The first rank of a machine listens, its others say hello, the machines meet,
// and the answer brings the memfd.

#include "Rendezvous.h"
#include "../support/Error.h"
#include "Control.h"
#include "Machines.h"
#include "shardonnx/runtime/ABI.h"
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace shardonnx::rt {
namespace {

constexpr uint32_t kMagic = 0x53485831; // "SHX1"
constexpr double kSecondsForHello = 5;  // who connects sends it at once

struct Hello {
  uint32_t magic = kMagic, abi = SHX_ABI_VERSION;
  int32_t rank = 0, worldSize = 0, pid = 0;
  uint32_t reserved = 0;
  uint64_t program = 0, options = 0;
  int64_t sharedBytes = 0;
};

struct Answer {
  uint32_t magic = kMagic;
  uint32_t refused = 0;
  int32_t rank = 0;   // of who answers
  uint32_t bytes = 0; // of the table, or of the message, that follows
};

sockaddr_un address(const RankInfo &info, socklen_t &length) {
  std::string name = concat("shardonnx-", ::getuid(), "-", info.launcher, "-",
                            std::hex, fnv1a(info.meeting));
  sockaddr_un at{};
  at.sun_family = AF_UNIX; // sun_path[0] = 0: the abstract namespace
  size_t n = std::min(name.size(), sizeof(at.sun_path) - 1);
  std::memcpy(at.sun_path + 1, name.data(), n);
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + n);
  return at;
}

FileDescriptor newSocket() {
  FileDescriptor s(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!s)
    fail("cannot create a Unix socket: ", systemError());
  return s;
}

// Any user of the machine may connect to an abstract name: only our own do.
bool isOurUser(int connection) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  return ::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) ==
             0 &&
         peer.uid == ::getuid();
}

// The answer with the file, then the text.
void sendAnswer(int connection, const Answer &head, const std::string &text,
                int fd) {
  Answer answer = head;
  answer.bytes = static_cast<uint32_t>(text.size());
  iovec data{&answer, sizeof(answer)};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = space;
    message.msg_controllen = sizeof(space);
    cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
  }
  // A peer that is gone shows on its connection soon enough.
  if (::sendmsg(connection, &message, MSG_NOSIGNAL) ==
      static_cast<ssize_t>(sizeof(answer)))
    sendAll(connection, text.data(), text.size(), monotonicSeconds() + 5);
}

struct Received {
  Answer answer;
  std::string text;
  FileDescriptor memory;
};

Received receiveAnswer(int connection, double deadline) {
  constexpr const char *kEnded =
      "the first rank of this machine ended before the ranks had met; its "
      "message tells why";
  constexpr uint32_t kMaxBytes = 1 << 20;
  Received received;
  iovec data{&received.answer, sizeof(received.answer)};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof(space);
  ssize_t n = ::recvmsg(connection, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
  if (n != static_cast<ssize_t>(sizeof(Answer)) ||
      received.answer.magic != kMagic || received.answer.bytes > kMaxBytes)
    fail(kEnded);
  cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (header && header->cmsg_type == SCM_RIGHTS) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof(int));
    received.memory = FileDescriptor(fd);
  }
  received.text.resize(received.answer.bytes);
  if (!receiveAll(connection, &received.text[0], received.text.size(),
                  deadline))
    fail(kEnded);
  return received;
}

std::string refusal(const Hello &theirs, const Hello &ours,
                    const std::vector<Peer> &present) {
  std::string who =
      concat("rank ", theirs.rank, " (process ", theirs.pid, ") ");
  std::string leader = concat("rank ", ours.rank);
  if (theirs.abi != ours.abi || theirs.program != ours.program)
    return concat(who, "runs another program than ", leader,
                  ": start the same executable on every rank");
  if (theirs.worldSize != ours.worldSize)
    return concat(who, "was told of ", theirs.worldSize, " ranks, ", leader,
                  " of ", ours.worldSize);
  if (theirs.options != ours.options || theirs.sharedBytes != ours.sharedBytes)
    return concat(who, "was given other options than ", leader,
                  ": give all ranks the same command line");
  if (theirs.rank <= ours.rank || theirs.rank >= ours.worldSize)
    return concat(who, "is not one of the ", ours.worldSize, " ranks after ",
                  leader, ", the first of this machine");
  for (const Peer &peer : present)
    if (peer.rank == theirs.rank)
      return who + "is there twice";
  return "";
}

// Where all ranks are of one machine, which ones; else how many.
std::string missingRanks(const std::vector<Peer> &present,
                         const RankInfo &info) {
  if (info.severalMachines())
    return concat(info.localWorldSize - 1 - static_cast<int>(present.size()),
                  " of the ", info.localWorldSize, " ranks of this machine");
  std::string missing;
  for (int r = 1; r < info.worldSize; ++r) {
    bool here = std::any_of(present.begin(), present.end(),
                            [&](const Peer &p) { return p.rank == r; });
    if (!here)
      missing += (missing.empty() ? "" : ", ") + std::to_string(r);
  }
  return "rank " + missing;
}

// The first rank of a machine.
class Leader {
public:
  Leader(const RankInfo &info, const Hello &ours, const MeetingRequest &request)
      : info(info), ours(ours), request(request) {}

  Group meet() {
    if (info.localWorldSize > 1)
      gatherMachine();
    std::vector<int> local = {info.rank};
    for (const Peer &peer : peers)
      local.push_back(peer.rank);
    Group group;
    try {
      MachinesMet met = meetMachines(info, request, local);
      group.machines = std::move(met.table);
      group.memory = createMemoryFile(request.sharedBytes);
      Answer answer;
      answer.rank = info.rank;
      for (Peer &peer : peers)
        sendAnswer(peer.connection.get(), answer, group.machines.pack(),
                   group.memory.get());
      for (Peer &peer : met.peers)
        peers.push_back(std::move(peer));
    } catch (const Error &e) {
      refuseAll(e.what());
      throw;
    }
    group.peers = std::move(peers);
    return group;
  }

private:
  void gatherMachine() {
    FileDescriptor listener = newSocket();
    socklen_t length;
    sockaddr_un at = address(info, length);
    if (::bind(listener.get(), reinterpret_cast<sockaddr *>(&at), length) != 0)
      fail("another run of this launcher holds the ranks' meeting point: ",
           systemError());
    if (::listen(listener.get(), info.localWorldSize) != 0)
      fail("cannot listen for the other ranks: ", systemError());
    double deadline = monotonicSeconds() + request.timeoutSeconds;
    while (static_cast<int>(peers.size()) + 1 < info.localWorldSize) {
      if (!waitReadable(listener.get(), deadline))
        refuse(concat(missingRanks(peers, info), " did not come within ",
                      request.timeoutSeconds,
                      " s: start as many processes as the launcher announces"));
      FileDescriptor connection(
          ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      Hello theirs;
      if (!connection || !isOurUser(connection.get()) ||
          !receiveAll(
              connection.get(), &theirs, sizeof(theirs),
              std::min(deadline, monotonicSeconds() + kSecondsForHello)) ||
          theirs.magic != kMagic)
        continue;
      std::string message = refusal(theirs, ours, peers);
      peers.push_back({theirs.rank, std::move(connection)});
      if (!message.empty())
        refuse(message);
    }
  }
  [[noreturn]] void refuse(const std::string &message) {
    refuseAll(message);
    fail(message);
  }
  void refuseAll(const std::string &message) {
    Answer answer;
    answer.refused = 1;
    for (Peer &peer : peers)
      sendAnswer(peer.connection.get(), answer, message, -1);
  }

  const RankInfo &info;
  const Hello &ours;
  const MeetingRequest &request;
  std::vector<Peer> peers;
};

Group join(const RankInfo &info, const Hello &ours,
           const MeetingRequest &request) {
  socklen_t length;
  sockaddr_un at = address(info, length);
  double deadline = monotonicSeconds() + request.timeoutSeconds;
  FileDescriptor connection = newSocket();
  while (::connect(connection.get(), reinterpret_cast<sockaddr *>(&at),
                   length) != 0) {
    if (monotonicSeconds() > deadline)
      fail("the first rank of this machine did not appear within ",
           request.timeoutSeconds,
           " s: start as many processes as the launcher announces; on several "
           "machines, LOCAL_RANK and LOCAL_WORLD_SIZE tell which are here");
    failIfStopped();
    ::usleep(5000); // it is still starting
  }
  if (!isOurUser(connection.get()))
    fail("the ranks' meeting point belongs to another user");
  if (!sendAll(connection.get(), &ours, sizeof(ours), deadline))
    fail("cannot reach the first rank of this machine: ", systemError());
  // It waits for the others meanwhile, and says so itself when in vain.
  double patience = monotonicSeconds() + 2 * request.timeoutSeconds;
  if (info.severalMachines())
    patience += 3 * request.machinesTimeoutSeconds;
  if (!waitReadable(connection.get(), patience))
    fail("the first rank of this machine did not answer");
  Received received = receiveAnswer(connection.get(), patience);
  if (received.answer.refused || !received.memory)
    throw Error(received.text, kExitFollows); // who refuses prints it
  std::optional<MachineTable> table =
      MachineTable::unpack(received.text, info.worldSize);
  if (!table)
    fail("the first rank of this machine sent a table that is none");
  Group group;
  group.memory = std::move(received.memory);
  group.machines = std::move(*table);
  group.peers.push_back({received.answer.rank, std::move(connection)});
  return group;
}

} // namespace

Group meet(const RankInfo &info, const MeetingRequest &request) {
  if (info.worldSize == 1) {
    Group alone;
    alone.machines.machineOf = {0};
    alone.machines.hosts = {"this machine"};
    return alone;
  }
  Hello ours;
  ours.rank = info.rank;
  ours.worldSize = info.worldSize;
  ours.pid = ::getpid();
  ours.program = fnv1a(request.program);
  ours.options = fnv1a(request.options);
  ours.sharedBytes = request.sharedBytes;
  return info.localRank == 0 ? Leader(info, ours, request).meet()
                             : join(info, ours, request);
}

} // namespace shardonnx::rt
