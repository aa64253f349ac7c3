// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How ranks meet, compare what they do, and move data piece by piece through
// shared memory.

#include "Communicator.h"
#include "driver/Hooks.h"
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

using namespace shardonnx::emulator;

const char *shardonnx::emulator::nameOf(Call call) {
  static const char *const names[] = {"nothing",
                                      "ncclAllGather",
                                      "ncclReduceScatter",
                                      "ncclAllReduce",
                                      "ncclBroadcast",
                                      "ncclReduce",
                                      "ncclSend",
                                      "ncclRecv",
                                      "ncclCommWindowRegister",
                                      "ncclCommWindowDeregister",
                                      "ncclCommSplit"};
  return names[static_cast<int>(call)];
}

Communicator::~Communicator() {
  if (joining.joinable())
    joining.join();
  if (segment)
    segment->rank(rank).left = 1;
}

bool Communicator::waitFor(const std::function<bool()> &there) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now(), look = start;
  for (unsigned tries = 0; !there(); ++tries) {
    if (aborted)
      return false;
    if (tries < 200) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (Clock::now() - look > std::chrono::milliseconds(100)) {
      look = Clock::now();
      lookForTheDead();
    }
  }
  return true;
}

void Communicator::lookForTheDead() {
  for (int r = 0; r < size && error == ncclSuccess; ++r) {
    RankArea &area = segment->rank(r);
    bool gone = area.left || (area.pid && !processLives(area.pid));
    if (!gone || r == rank)
      continue;
    error = ncclRemoteError;
    refuse(ncclRemoteError, "rank " + std::to_string(r) +
                                " of the communicator is gone; rank " +
                                std::to_string(rank) + " waits for it");
  }
}

bool Communicator::barrier(Step step) {
  uint64_t turn = ++(segment->rank(rank).*step);
  return waitFor([&] {
    for (int r = 0; r < size; ++r)
      if ((segment->rank(r).*step) < turn)
        return false;
    return true;
  });
}

ncclResult_t Communicator::join(const std::string &identity, int ranks,
                                int myRank, int onDevice) {
  size = ranks;
  rank = myRank;
  device = onDevice;
  segment.reset(Segment::open(identity, ranks));
  if (!segment)
    return refuse(ncclSystemError, "no shared memory for a communicator");
  int32_t nobody = 0;
  if (!segment->rank(rank).pid.compare_exchange_strong(nobody, getpid()))
    return refuse(ncclInvalidUsage,
                  "rank " + std::to_string(rank) + " joins twice");
  ++segment->arrived();
  bool all = waitFor([&] { return segment->arrived() >= size; });
  // Nobody needs the name any more.
  segment->unlink();
  if (!all)
    return ncclInternalError;
  return checkDevices();
}

/// NCCL before 2.30 has one rank for each GPU, and later ones unless asked.
ncclResult_t Communicator::checkDevices() {
  CUuuid uuid;
  cuDeviceGetUuid(&uuid, device);
  int64_t mine[4] = {uuid.bytes[15], 0, 0, 0};
  std::vector<std::vector<int64_t>> others;
  if (!meet({0, 0, 0, 0, 0}, mine, others))
    return ncclInternalError;
  int version;
  ncclGetVersion(&version);
  if (version >= NCCL_VERSION(2, 30, 0) &&
      std::getenv("NCCL_MULTI_RANK_GPU_ENABLE"))
    return ncclSuccess;
  for (int r = 0; r < size; ++r)
    if (r != rank && others[static_cast<size_t>(r)][0] == mine[0])
      return refuse(ncclInvalidUsage, "Duplicate GPU detected : rank " +
                                          std::to_string(rank) + " and rank " +
                                          std::to_string(r) +
                                          " are on the same CUDA device");
  return ncclSuccess;
}

bool Communicator::meet(Post post, const int64_t (&mine)[4],
                        std::vector<std::vector<int64_t>> &all) {
  RankArea &area = segment->rank(rank);
  // Streams may post meanwhile: the call's kind goes with the values.
  std::copy(mine, mine + 4, area.host);
  area.host[3] = (int64_t(post.call) << 48) + static_cast<int64_t>(post.count);
  if (!barrier(&RankArea::hostStep))
    return false;
  all.clear();
  bool same = true;
  for (int r = 0; r < size; ++r) {
    const int64_t *values = segment->rank(r).host;
    all.emplace_back(values, values + 4);
    same = same && values[3] == area.host[3];
  }
  if (!barrier(&RankArea::hostStep))
    return false;
  if (!same) {
    error = ncclInvalidUsage;
    refuse(ncclInvalidUsage, "ranks differ in their calls of the host: rank " +
                                 std::to_string(rank) + " calls " +
                                 nameOf(static_cast<Call>(post.call)) + " of " +
                                 std::to_string(post.count));
  }
  return same;
}

void Communicator::abort() {
  aborted = true;
  if (joining.joinable())
    joining.join();
  if (segment)
    segment->rank(rank).left = 1;
}

/// SHARDONNX_EMULATOR_HANG_RANK=r[:n]: never arrives at its n-th operation.
bool Communicator::hangsNow() const {
  static const char *text = std::getenv("SHARDONNX_EMULATOR_HANG_RANK");
  static std::atomic<int> calls{0};
  if (!text || std::atoi(text) != rank)
    return false;
  const char *colon = std::strchr(text, ':');
  return ++calls >= (colon ? std::atoi(colon + 1) : 1);
}

bool Communicator::sameCall(const Post &mine) {
  for (int r = 0; r < size; ++r) {
    const Post &other = segment->rank(r).post;
    if (!std::memcmp(&other, &mine, sizeof mine))
      continue;
    auto describe = [](int who, const Post &post) {
      return "rank " + std::to_string(who) + " runs " +
             nameOf(static_cast<Call>(post.call)) + " of " +
             std::to_string(post.count) + " elements (type " +
             std::to_string(post.type) + ", reduction " +
             std::to_string(post.reduction) + ", root " +
             std::to_string(post.root) + ")";
    };
    error = ncclInvalidUsage;
    refuse(ncclInvalidUsage, "mismatched calls: " + describe(rank, mine) +
                                 ", " + describe(r, other));
    return false;
  }
  return true;
}

/// As NCCL does, which connects the ranks when they first talk.
bool Communicator::takeBuffers() {
  constexpr size_t kBytes = 32 << 20;
  if (buffers)
    return true;
  buffers = std::shared_ptr<void>(
      shardonnxEmulatorReserve(device, kBytes, "a communicator's buffers"),
      shardonnxEmulatorUnreserve);
  if (!buffers)
    error = ncclUnhandledCudaError;
  return buffers != nullptr;
}

bool Communicator::execute(const std::vector<Operation> &operations) {
  std::lock_guard<std::mutex> lock(turn);
  if (aborted)
    return true;
  if (!takeBuffers())
    return false;
  struct Running {
    explicit Running(std::atomic<int> &count) : count(count) { ++count; }
    ~Running() { --count; }
    std::atomic<int> &count;
  } counted(running);
  if (hangsNow()) {
    waitFor([] { return false; });
    return true;
  }
  std::vector<Operation> pairs;
  for (const Operation &operation : operations) {
    if (operation.call == Call::Send || operation.call == Call::Recv)
      pairs.push_back(operation);
    else if (!collective(operation))
      return aborted;
  }
  return transfers(pairs) || aborted;
}

/// The part of [first, first + count) inside [low, high).
static bool overlap(size_t first, size_t count, size_t low, size_t high,
                    size_t &from, size_t &to) {
  from = std::max(first, low);
  to = std::min(first + count, high);
  return from < to;
}

void Communicator::reduceSlots(char *to, size_t first, size_t count,
                               const Operation &operation) {
  unsigned bytes = bytesOf(operation.type);
  std::vector<const char *> sources;
  for (int r = 0; r < size; ++r)
    sources.push_back(segment->slot(r) + first * bytes);
  reduce(to, sources, count, operation.type, operation.reduction);
}

/// Every rank lays a piece of what it gives into its slot, all read, and so on.
bool Communicator::collective(const Operation &o) {
  size_t bytes = bytesOf(o.type), n = static_cast<size_t>(size);
  bool gather = o.call == Call::AllGather;
  bool scatter = o.call == Call::ReduceScatter;
  bool isRoot = rank == o.root;
  bool gives = o.call != Call::Broadcast || isRoot;
  bool takes = o.call != Call::Reduce || isRoot;
  size_t given = o.count * (scatter ? n : 1),
         taken = o.count * (gather ? n : 1);
  char *from = nullptr, *to = nullptr;
  const char *name = nameOf(o.call);
  if (gives && o.count)
    from = static_cast<char *>(
        shardonnxEmulatorAccess(o.send, given * bytes, 0, name));
  if (takes && o.count)
    to = static_cast<char *>(
        shardonnxEmulatorAccess(o.receive, taken * bytes, 1, name));
  if (o.count && ((gives && !from) || (takes && !to)))
    return false;
  Post post{static_cast<int32_t>(o.call), o.type, o.reduction, o.root, o.count};
  segment->rank(rank).post = post;
  if (!barrier(&RankArea::streamStep) || !sameCall(post))
    return false;
  // What the real one would leave half done is not to be relied on.
  size_t piece = Segment::kSlot / bytes, mine = static_cast<size_t>(rank);
  for (size_t first = 0; first < given; first += piece) {
    size_t count = std::min(piece, given - first);
    if (gives)
      std::memcpy(segment->slot(rank), from + first * bytes, count * bytes);
    if (!barrier(&RankArea::streamStep))
      return false;
    size_t low, high;
    if (gather) {
      for (size_t r = 0; r < n; ++r)
        std::memcpy(to + (r * o.count + first) * bytes,
                    segment->slot(static_cast<int>(r)), count * bytes);
    } else if (o.call == Call::Broadcast) {
      std::memcpy(to + first * bytes, segment->slot(o.root), count * bytes);
    } else if (scatter) {
      if (overlap(first, count, mine * o.count, (mine + 1) * o.count, low,
                  high))
        reduceSlots(to + (low - mine * o.count) * bytes, low - first,
                    high - low, o);
    } else if (takes) {
      reduceSlots(to + first * bytes, 0, count, o);
    }
    if (!barrier(&RankArea::streamStep))
      return false;
  }
  return true;
}

namespace {
struct Transfer {
  const Operation *operation;
  char *bytes;
  size_t done = 0, total = 0;
};
} // namespace

/// Sends and receives of a group go on side by side.
bool Communicator::transfers(const std::vector<Operation> &operations) {
  std::vector<Transfer> open;
  for (const Operation &o : operations) {
    bool sends = o.call == Call::Send;
    size_t total = o.count * bytesOf(o.type);
    char *bytes = static_cast<char *>(shardonnxEmulatorAccess(
        sends ? o.send : o.receive, total, !sends, nameOf(o.call)));
    if (!bytes)
      return false;
    open.push_back({&o, bytes, 0, total});
  }
  auto advance = [&](Transfer &t) {
    bool sends = t.operation->call == Call::Send;
    int from = sends ? rank : t.operation->root;
    int to = sends ? t.operation->root : rank;
    Mailbox &box = segment->mailbox(from, to);
    char *mail = segment->mail(from, to);
    if (sends && box.written == box.read) {
      box.bytes =
          static_cast<uint32_t>(std::min(Segment::kMail, t.total - t.done));
      std::memcpy(mail, t.bytes + t.done, box.bytes);
      t.done += box.bytes;
      ++box.written;
    } else if (!sends && box.written > box.read) {
      if (box.bytes > t.total - t.done) {
        error = ncclInvalidUsage;
        refuse(ncclInvalidUsage, "ncclRecv of fewer bytes than were sent");
        t.done = t.total;
      } else {
        std::memcpy(t.bytes + t.done, mail, box.bytes);
        t.done += box.bytes;
      }
      ++box.read;
    }
  };
  return waitFor([&] {
           bool finished = true;
           for (size_t k = 0; k < open.size(); ++k) {
             // Two transfers of one pair keep their order.
             bool first = true;
             for (size_t j = 0; j < k; ++j)
               first = first &&
                       (open[j].done == open[j].total ||
                        open[j].operation->call != open[k].operation->call ||
                        open[j].operation->root != open[k].operation->root);
             if (first && open[k].done < open[k].total)
               advance(open[k]);
             finished = finished && open[k].done == open[k].total;
           }
           return finished;
         }) &&
         error != ncclInvalidUsage;
}
