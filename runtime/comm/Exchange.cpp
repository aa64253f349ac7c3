// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A gather goes up (ranks to leaders, leaders to rank 0) as a list of (rank,
// length, bytes) and comes down whole.

#include "Exchange.h"
#include "../support/Error.h"
#include "Socket.h"
#include <cerrno>
#include <chrono>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>

namespace shardonnx::rt {
namespace {

constexpr uint32_t kMagic = 0x45485853; // "SXHE"
constexpr uint64_t kMaxBytes = 64 << 20;
constexpr double kSecondsToSend = 20;
constexpr double kSecondsToAnnounce = 2; // the process is about to end

template <typename T> void append(std::string &bytes, T value) {
  bytes.append(reinterpret_cast<const char *>(&value), sizeof(value));
}
template <typename T>
bool take(const std::string &bytes, size_t &at, T &value) {
  if (bytes.size() - at < sizeof(value))
    return false;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  at += sizeof(value);
  return true;
}

// Splits a list; false when it is none.
bool split(const std::string &list, std::vector<std::string> &byRank,
           size_t &count) {
  size_t at = 0;
  count = 0;
  while (at < list.size()) {
    uint32_t rank, bytes;
    if (!take(list, at, rank) || !take(list, at, bytes) ||
        rank >= byRank.size() || list.size() - at < bytes)
      return false;
    byRank[rank] = list.substr(at, bytes);
    at += bytes;
    ++count;
  }
  return true;
}

struct Memory {
  int64_t peak, used;
};

struct RankBeat {
  int64_t rank;
  RankStatus status;
};
constexpr int kRelayedRanks = 64; // a beat fits into what a socket takes

// Now: who sends beats must not wait.
bool takesBytes(int connection) {
  pollfd one{connection, POLLOUT, 0};
  return ::poll(&one, 1, 0) == 1 && (one.revents & POLLOUT);
}

} // namespace

Exchange::Exchange(Control &control, const Group &group)
    : control(control), group(group), inboxes(group.peers.size()) {}

void Exchange::connect(const RankInfo &info) {
  if (info.severalMachines())
    control.setMachines({group.localRanks(info.rank),
                         [this](Activity activity) { barrier(activity); },
                         [this](int rank) { announceFailure(rank); }});
}

bool Exchange::leads() const {
  return group.localRanks(control.rank()).front() == control.rank();
}

void Exchange::send(size_t peer, Kind kind, int rank,
                    const std::string &bytes) {
  bool last = kind == Failed || kind == Ended;
  double seconds = last ? kSecondsToAnnounce : kSecondsToSend;
  std::unique_lock<std::timed_mutex> lock(sending, std::defer_lock);
  if (!lock.try_lock_for(std::chrono::duration<double>(seconds)))
    return;
  Header header{kMagic, kind, round, rank, bytes.size()};
  std::string message;
  append(message, header);
  message += bytes;
  // A peer that does not take it is dead, and the monitor sees that.
  sendAll(group.peers[peer].connection.get(), message.data(), message.size(),
          monotonicSeconds() + seconds);
}

// On a leader: the lists of all that are below it, its own among them.
std::string Exchange::collect(const std::string &mine, size_t &count,
                              Activity activity) {
  std::string list;
  append(list, static_cast<uint32_t>(control.rank()));
  append(list, static_cast<uint32_t>(mine.size()));
  list += mine;
  size_t below = 0;
  for (const Peer &peer : group.peers)
    if (leads() && (control.rank() == 0 || !peer.remote))
      ++below;
  control.wait(activity, 0, /*spin=*/false, [&] {
    std::lock_guard<std::mutex> lock(mutex);
    return below == 0 || ups[round].size() == below;
  });
  std::lock_guard<std::mutex> lock(mutex);
  for (const std::string &up : ups[round])
    list += up;
  ups.erase(round);
  std::vector<std::string> all(static_cast<size_t>(control.ranks()));
  if (!split(list, all, count))
    fail("another rank sent bytes that are no list");
  return list;
}

std::vector<std::string> Exchange::allGather(const std::string &mine,
                                             Activity activity) {
  ++round;
  size_t count = 0;
  std::string list = collect(mine, count, activity);
  if (control.rank() != 0) {
    for (size_t p = 0; p < group.peers.size(); ++p)
      if (!leads() || group.peers[p].remote)
        send(p, Up, 0, list);
    control.wait(activity, 0, /*spin=*/false, [&] {
      std::lock_guard<std::mutex> lock(mutex);
      return downs.count(round) != 0;
    });
    std::lock_guard<std::mutex> lock(mutex);
    list = std::move(downs[round]);
    downs.erase(round);
  }
  for (size_t p = 0; p < group.peers.size(); ++p)
    if (leads() && (control.rank() == 0 || !group.peers[p].remote))
      send(p, Down, 0, list);
  std::vector<std::string> all(static_cast<size_t>(control.ranks()));
  if (!split(list, all, count) || count != all.size())
    fail("rank 0 sent bytes that are no list of all ranks");
  return all;
}

std::string Exchange::broadcast(const std::string &bytes, Activity activity) {
  return allGather(control.rank() == 0 ? bytes : std::string(), activity)[0];
}

void Exchange::barrier(Activity activity) {
  RankBlock &mine = control.block(control.rank());
  std::string bytes;
  append(bytes, Memory{mine.peakBytes.load(), mine.pssBytes.load()});
  std::vector<std::string> all = allGather(bytes, activity);
  for (int r = 0; r < control.ranks(); ++r) {
    size_t at = 0;
    Memory memory{};
    if (control.isLocal(r) || !take(all[static_cast<size_t>(r)], at, memory))
      continue;
    control.block(r).peakBytes.store(memory.peak);
    control.block(r).pssBytes.store(memory.used);
  }
}

// ---- The monitor's part

bool Exchange::takeMessage(Inbox &inbox, Header &header, std::string &payload) {
  if (inbox.bytes.size() < sizeof(Header))
    return false;
  std::memcpy(&header, inbox.bytes.data(), sizeof(header));
  if (header.magic != kMagic || header.bytes > kMaxBytes)
    return true;
  if (inbox.bytes.size() - sizeof(Header) < header.bytes)
    return false;
  payload = inbox.bytes.substr(sizeof(Header), header.bytes);
  inbox.bytes.erase(0, sizeof(Header) + header.bytes);
  return true;
}

Exchange::News Exchange::read(size_t peer, int &rank) {
  Inbox &inbox = inboxes[peer];
  char buffer[1 << 16];
  ssize_t n = ::recv(group.peers[peer].connection.get(), buffer, sizeof(buffer),
                     MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return News::Nothing;
  if (n <= 0) {
    if (inbox.ended)
      return News::Ended;
    return n < 0 && errno != ECONNRESET ? News::Lost : News::Closed;
  }
  inbox.bytes.append(buffer, static_cast<size_t>(n));
  Header header;
  std::string payload;
  while (takeMessage(inbox, header, payload)) {
    std::lock_guard<std::mutex> lock(mutex);
    if (header.magic != kMagic || header.bytes > kMaxBytes)
      return News::Garbled;
    if (header.kind == Up)
      ups[header.round].push_back(std::move(payload));
    else if (header.kind == Down)
      downs[header.round] = std::move(payload);
    else if (header.kind == Ended)
      inbox.ended = true;
    else if (header.kind == Beat && takeBeat(payload))
      continue;
    else if (header.kind == Failed && header.rank >= 0 &&
             header.rank < control.ranks()) {
      rank = static_cast<int>(header.rank);
      return News::Failed;
    } else
      return News::Garbled;
  }
  control.notify();
  return News::Nothing;
}

// Whoever is in the middle of a message gives a sign of life by that.
void Exchange::sendBeats() {
  std::unique_lock<std::timed_mutex> lock(sending, std::try_to_lock);
  if (!lock)
    return;
  std::string bytes;
  for (int r = 0; r < control.ranks(); ++r)
    if (control.isLocal(r) ||
        (control.rank() == 0 && control.ranks() <= kRelayedRanks))
      append(bytes, RankBeat{r, control.status(r)});
  lock.unlock();
  for (size_t p = 0; p < group.peers.size(); ++p)
    if (group.peers[p].remote && takesBytes(group.peers[p].connection.get()))
      send(p, Beat, 0, bytes);
}

bool Exchange::takeBeat(const std::string &bytes) {
  for (size_t at = 0; at < bytes.size();) {
    RankBeat beat{};
    if (!take(bytes, at, beat) || beat.rank < 0 || beat.rank >= control.ranks())
      return false;
    auto rank = static_cast<int>(beat.rank);
    if (control.isLocal(rank))
      continue;
    control.setStatus(rank, beat.status);
    control.block(rank).beats.fetch_add(1);
  }
  return true;
}

void Exchange::announceFailure(int rank) {
  if (announced.exchange(true))
    return;
  for (size_t p = 0; p < group.peers.size(); ++p)
    if (group.peers[p].remote)
      send(p, Failed, rank, "");
}

void Exchange::announceEnd() {
  announced = true;
  for (size_t p = 0; p < group.peers.size(); ++p)
    if (group.peers[p].remote)
      send(p, Ended, 0, "");
}

} // namespace shardonnx::rt
