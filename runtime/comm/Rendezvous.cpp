// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rank 0 listens, the others say hello, rank 0 answers with the memfd.

#include "Rendezvous.h"
#include "../core/Error.h"
#include "Control.h"
#include "shardonnx/runtime/ABI.h"
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace shardonnx::rt {
namespace {

constexpr uint32_t kMagic = 0x53485831; // "SHX1"

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
  char message[504] = {};
};

uint64_t fnv1a(const std::string &text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : text)
    hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

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
  FileDescriptor s(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
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

bool waitReadable(int fd, double seconds) {
  pollfd p{fd, POLLIN, 0};
  return ::poll(&p, 1, static_cast<int>(std::max(0.0, seconds) * 1000)) > 0;
}

void sendAnswer(int connection, const Answer &answer, int fd) {
  iovec data{const_cast<Answer *>(&answer), sizeof(answer)};
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
  (void)!::sendmsg(connection, &message, MSG_NOSIGNAL);
}

// The answer and the file that came with it.
FileDescriptor receiveAnswer(int connection, Answer &answer) {
  iovec data{&answer, sizeof(answer)};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof(space);
  ssize_t n = ::recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
  if (n != static_cast<ssize_t>(sizeof(answer)) || answer.magic != kMagic)
    fail("rank 0 ended before the ranks had met; its message tells why");
  cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (!header || header->cmsg_type != SCM_RIGHTS)
    return FileDescriptor();
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof(int));
  return FileDescriptor(fd);
}

std::string refusal(const Hello &theirs, const Hello &ours,
                    const std::vector<Peer> &present) {
  std::string who =
      concat("rank ", theirs.rank, " (process ", theirs.pid, ") ");
  if (theirs.abi != ours.abi || theirs.program != ours.program)
    return who + "runs another program than rank 0: start the same executable "
                 "on every rank";
  if (theirs.worldSize != ours.worldSize)
    return who + concat("was told of ", theirs.worldSize, " ranks, rank 0 of ",
                        ours.worldSize);
  if (theirs.options != ours.options || theirs.sharedBytes != ours.sharedBytes)
    return who + "was given other options than rank 0: give all ranks the same "
                 "command line";
  if (theirs.rank < 1 || theirs.rank >= ours.worldSize)
    return who + concat("is outside the world of ", ours.worldSize);
  for (const Peer &peer : present)
    if (peer.rank == theirs.rank)
      return who + "is there twice";
  return "";
}

std::string missingRanks(const std::vector<Peer> &present, int worldSize) {
  std::string missing;
  for (int r = 1; r < worldSize; ++r) {
    bool here = std::any_of(present.begin(), present.end(),
                            [&](const Peer &p) { return p.rank == r; });
    if (!here)
      missing += (missing.empty() ? "" : ", ") + std::to_string(r);
  }
  return missing;
}

Answer refuse(const std::string &message) {
  Answer answer;
  answer.refused = 1;
  message.copy(answer.message, sizeof(answer.message) - 1);
  return answer;
}

Group lead(const RankInfo &info, const Hello &ours,
           const MeetingRequest &request) {
  Group group;
  FileDescriptor listener = newSocket();
  socklen_t length;
  sockaddr_un at = address(info, length);
  if (::bind(listener.get(), reinterpret_cast<sockaddr *>(&at), length) != 0)
    fail("another run of this launcher holds the ranks' meeting point: ",
         systemError());
  if (::listen(listener.get(), info.worldSize) != 0)
    fail("cannot listen for the other ranks: ", systemError());
  double deadline = monotonicSeconds() + request.timeoutSeconds;
  while (static_cast<int>(group.peers.size()) + 1 < info.worldSize) {
    if (!waitReadable(listener.get(), deadline - monotonicSeconds()))
      fail("rank ", missingRanks(group.peers, info.worldSize),
           " did not come within ", request.timeoutSeconds,
           " s: start as many processes as the launcher announces");
    FileDescriptor connection(
        ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    Hello theirs;
    if (!connection || !isOurUser(connection.get()) ||
        !waitReadable(connection.get(), deadline - monotonicSeconds()) ||
        ::recv(connection.get(), &theirs, sizeof(theirs), 0) !=
            static_cast<ssize_t>(sizeof(theirs)) ||
        theirs.magic != kMagic)
      continue;
    std::string message = refusal(theirs, ours, group.peers);
    if (!message.empty()) {
      sendAnswer(connection.get(), refuse(message), -1);
      for (Peer &peer : group.peers)
        sendAnswer(peer.connection.get(), refuse(message), -1);
      fail(message);
    }
    group.peers.push_back({theirs.rank, std::move(connection)});
  }
  group.memory = createMemoryFile(request.sharedBytes);
  for (Peer &peer : group.peers)
    sendAnswer(peer.connection.get(), Answer(), group.memory.get());
  return group;
}

Group join(const RankInfo &info, const Hello &ours,
           const MeetingRequest &request) {
  socklen_t length;
  sockaddr_un at = address(info, length);
  double deadline = monotonicSeconds() + request.timeoutSeconds;
  FileDescriptor connection = newSocket();
  while (::connect(connection.get(), reinterpret_cast<sockaddr *>(&at),
                   length) != 0) {
    if (monotonicSeconds() > deadline)
      fail("rank 0 did not appear within ", request.timeoutSeconds,
           " s: start as many processes as the launcher announces, on one "
           "machine");
    ::usleep(5000); // rank 0 is still starting
  }
  if (!isOurUser(connection.get()))
    fail("the ranks' meeting point belongs to another user");
  if (::send(connection.get(), &ours, sizeof(ours), MSG_NOSIGNAL) < 0)
    fail("cannot reach rank 0: ", systemError());
  // Rank 0 waits for the others meanwhile, and says so itself when in vain.
  if (!waitReadable(connection.get(), 2 * request.timeoutSeconds))
    fail("rank 0 did not answer");
  Answer answer;
  Group group;
  group.memory = receiveAnswer(connection.get(), answer);
  if (answer.refused || !group.memory) {
    answer.message[sizeof(answer.message) - 1] = 0;
    throw Error(answer.message, kExitFollows); // rank 0 prints it
  }
  group.peers.push_back({0, std::move(connection)});
  return group;
}

} // namespace

Group meet(const RankInfo &info, const MeetingRequest &request) {
  if (info.worldSize == 1)
    return Group();
  Hello ours;
  ours.rank = info.rank;
  ours.worldSize = info.worldSize;
  ours.pid = ::getpid();
  ours.program = fnv1a(request.program);
  ours.options = fnv1a(request.options);
  ours.sharedBytes = request.sharedBytes;
  return info.rank == 0 ? lead(info, ours, request) : join(info, ours, request);
}

} // namespace shardonnx::rt
