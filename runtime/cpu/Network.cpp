// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Network.h. Sums go chunk by chunk, so that their staging stays small and
// one chunk is added while the next one travels.

#include "Network.h"
#include "../gloo/Image.h"
#include "../support/Error.h"
#include "ReduceKernels.h"
#include "shardonnx/runtime/GatherCodes.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unistd.h>

namespace shardonnx::rt {
namespace {

constexpr int64_t kChunk = 1 << 19; // elements
constexpr double kSecondsToConnect = 12;
// A stranger is met at once, a network that lets nothing through is not.
constexpr double kSecondsToTryAgain = 30;
constexpr int kMostTries = 5;
constexpr const char *kGood = "good", *kBad = "bad", *kHopeless = "hopeless";
// A rank that dies breaks the others' connections before its machine tells.
constexpr double kSecondsForTheCause = 8;

// What of an interval belongs to a chunk.
Interval chunkOf(const Interval &whole, int64_t chunk) {
  return {std::min(whole.begin + chunk * kChunk, whole.end),
          std::min(whole.begin + (chunk + 1) * kChunk, whole.end)};
}

size_t bytesOf(const Interval &interval, int64_t element) {
  return static_cast<size_t>(interval.size() * element);
}

// By which the other machines reach this one: the leaders of the machines are
// connected with each other, so their own ends' addresses are right.
std::string machineAddress(Exchange &exchange, const Group &group, int rank) {
  std::string mine;
  for (const Peer &peer : group.peers)
    if (peer.remote && mine.empty())
      mine = localAddress(peer.connection.get());
  std::vector<std::string> all = exchange.allGather(mine);
  return all[static_cast<size_t>(group.localRanks(rank).front())];
}

struct Meeting {
  Exchange &exchange;
  std::vector<std::string> said = {}; // [rank]

  static void say(void *user, const char *bytes, size_t count) {
    auto *self = static_cast<Meeting *>(user);
    self->said = self->exchange.allGather(std::string(bytes, count));
  }
  static size_t heard(void *user, int rank, const char **bytes) {
    std::string &text =
        static_cast<Meeting *>(user)->said[static_cast<size_t>(rank)];
    *bytes = text.data();
    return text.size();
  }
};

} // namespace

uint64_t Network::Slot::pack(uint64_t piece) const {
  constexpr uint64_t kUnits = 1 << 16, kTurns = 1 << 24, kPieces = 1 << 20;
  return ((collective * kUnits + unit % kUnits) * kTurns + turn % kTurns) *
             kPieces +
         piece % kPieces;
}

// Bytes on their way, to or from several ranks.
class Network::Transfers {
public:
  explicit Transfers(Network &network) : network(network) {}
  void send(int peer, uint64_t slot, const void *from, size_t bytes) {
    if (bytes > 0)
      add(peer, network.functions.send(network.gloo, peer, slot, from, bytes,
                                       &error));
  }
  void receive(int peer, uint64_t slot, void *to, size_t bytes) {
    if (bytes > 0)
      add(peer, network.functions.receive(network.gloo, peer, slot, to, bytes,
                                          &error));
  }
  void finish() {
    for (auto &[peer, transfer] : started)
      if (!network.functions.finish(transfer, &error))
        network.broken(peer, error);
    started.clear();
  }

private:
  void add(int peer, ShxGlooTransfer *transfer) {
    if (!transfer)
      network.broken(peer, error);
    started.push_back({peer, transfer});
  }
  Network &network;
  ShxGlooError error{};
  std::vector<std::pair<int, ShxGlooTransfer *>> started;
};

Network::Network(Control &control, Exchange &exchange, const Group &group,
                 const std::vector<int> &peers)
    : control(control), group(group), functions(loadGloo()) {
  std::string address = machineAddress(exchange, group, control.rank());
  const char *interface = std::getenv("GLOO_SOCKET_IFNAME");
  double begin = monotonicSeconds();
  for (int tries = 1; !gloo; ++tries) {
    Meeting meeting{exchange};
    ShxGlooError error{};
    gloo = functions.open(control.rank(), control.ranks(), peers.data(),
                          peers.size(), interface ? "" : address.c_str(),
                          interface ? interface : "", kSecondsToConnect,
                          {&meeting, Meeting::say, Meeting::heard}, &error);
    std::vector<std::string> verdicts;
    bool late = monotonicSeconds() - begin > kSecondsToTryAgain;
    if (!meeting.said.empty()) // all ranks have come so far
      verdicts = exchange.allGather(gloo ? kGood : late ? kHopeless : kBad);
    auto said = [&](const char *verdict) {
      return std::count(verdicts.begin(), verdicts.end(), verdict) > 0;
    };
    if (gloo && !said(kBad) && !said(kHopeless))
      break;
    if (verdicts.empty() || said(kHopeless) || tries == kMostTries)
      fail("cannot connect with the other machines by Gloo from address ",
           address, " (", gloo ? "another rank cannot" : error.text,
           "): GLOO_SOCKET_IFNAME names the network interface to use");
    if (gloo)
      functions.close(gloo);
    gloo = nullptr;
    if (control.rank() == 0)
      printWarning(concat("somebody else came to a port where Gloo waited for "
                          "a rank, or the network lost a connection: all ranks "
                          "connect again"));
  }
}

void Network::broken(int peer, const ShxGlooError &error) {
  double end = monotonicSeconds() + kSecondsForTheCause;
  while (monotonicSeconds() < end) {
    if (control.failed())
      control.follow();
    ::usleep(50'000);
  }
  control.failNow(control.rank(),
                  concat("rank ", control.rank(), ": the connection with rank ",
                         peer, " (host ", group.machines.hostOf(peer),
                         ") broke: ", error.text),
                  kExitFailure);
}

void Network::gather(const Route &route, const Slot &slot,
                     const SliceAt &sliceAt, const BytesOf &bytesOf) {
  Transfers all(*this);
  for (size_t member : route.carried)
    all.receive(route.members[member], slot.pack(0), sliceAt(member),
                bytesOf(member));
  size_t mine = route.place(control.rank());
  for (int carrier : route.carriers)
    all.send(carrier, slot.pack(0), sliceAt(mine), bytesOf(mine));
  all.finish();
}

void Network::reduceScatter(const Route &route, const Slot &slot,
                            const Reduction &r) {
  int64_t element = dtypeBytes(r.dtype);
  Interval mine = r.partOf(route.place(control.rank()));
  int64_t longest = mine.size();
  for (size_t member : route.carried)
    longest = std::max(longest, r.partOf(member).size());
  auto room = static_cast<size_t>(std::min(longest, kChunk) * element);
  std::vector<float> sums(r.dtype == SHX_F32 ? 0 : kChunk);
  auto from = [&](const Interval &interval) {
    std::vector<const void *> at;
    for (const uint8_t *source : r.sources)
      at.push_back(source + interval.begin * element);
    return at;
  };
  struct Half {
    explicit Half(Network &network) : in(network), out(network) {}
    std::vector<uint8_t> partials, received;
    Transfers in, out;
  } halves[2] = {Half(*this), Half(*this)};
  auto begin = [&](int64_t chunk) {
    Half &half = halves[chunk % 2];
    half.out.finish();
    half.partials.resize(route.carried.size() * room);
    half.received.resize(route.carriers.size() * room);
    uint64_t packed = slot.pack(static_cast<uint64_t>(chunk));
    for (size_t i = 0; i < route.carriers.size(); ++i)
      half.in.receive(route.carriers[i], packed, &half.received[i * room],
                      shardonnx::rt::bytesOf(chunkOf(mine, chunk), element));
    for (size_t i = 0; i < route.carried.size(); ++i) {
      Interval part = chunkOf(r.partOf(route.carried[i]), chunk);
      if (part.size() == 0)
        continue;
      uint8_t *to = &half.partials[i * room];
      float *sum = sums.empty() ? reinterpret_cast<float *>(to) : sums.data();
      std::vector<const void *> at = from(part);
      sumSlices(sum, at.data(), at.size(), part.size(), r.dtype, false);
      if (!sums.empty())
        castSlice(to, r.dtype, sum, part.size());
      half.out.send(route.members[route.carried[i]], packed, to,
                    shardonnx::rt::bytesOf(part, element));
    }
  };
  auto end = [&](int64_t chunk) {
    Half &half = halves[chunk % 2];
    half.in.finish();
    Interval part = chunkOf(mine, chunk);
    if (part.size() == 0)
      return;
    std::vector<const void *> at = from(part);
    for (size_t i = 0; i < route.carriers.size(); ++i)
      at.push_back(&half.received[i * room]);
    sumSlices(r.out + (part.begin - mine.begin), at.data(), at.size(),
              part.size(), r.dtype, r.accumulate);
  };
  int64_t chunks = (longest + kChunk - 1) / kChunk;
  for (int64_t chunk = 0; chunk <= chunks; ++chunk) {
    if (chunk < chunks)
      begin(chunk);
    if (chunk > 0)
      end(chunk - 1);
  }
  for (Half &half : halves)
    half.out.finish();
}

void Network::allReduce(const std::vector<int> &members, const Slot &slot,
                        float *data, int64_t count) {
  size_t n = members.size();
  size_t self = static_cast<size_t>(
      std::find(members.begin(), members.end(), control.rank()) -
      members.begin());
  std::vector<float> staging;
  Transfers transfers(*this);
  for (int64_t chunk = 0; chunk * kChunk < count; ++chunk) {
    Interval whole = chunkOf({0, count}, chunk);
    auto part = [&](size_t member) {
      Interval p = ownedInterval(whole.size(), static_cast<int64_t>(member),
                                 static_cast<int64_t>(n));
      return Interval{whole.begin + p.begin, whole.begin + p.end};
    };
    Interval mine = part(self);
    auto length = static_cast<size_t>(mine.size());
    staging.resize(n * length);
    std::vector<const void *> sources(n);
    uint64_t there = slot.pack(static_cast<uint64_t>(2 * chunk)),
             back = slot.pack(static_cast<uint64_t>(2 * chunk + 1));
    for (size_t m = 0; m < n; ++m) {
      sources[m] = m == self ? data + mine.begin : &staging[m * length];
      if (m == self)
        continue;
      transfers.receive(members[m], there, staging.data() + m * length,
                        bytesOf(mine, sizeof(float)));
      transfers.send(members[m], there, data + part(m).begin,
                     bytesOf(part(m), sizeof(float)));
    }
    transfers.finish();
    float *sum = staging.data() + self * length;
    sumSlices(sum, sources.data(), n, mine.size(), SHX_F32, false);
    std::copy(sum, sum + length, data + mine.begin);
    for (size_t m = 0; m < n; ++m) {
      if (m == self)
        continue;
      transfers.receive(members[m], back, data + part(m).begin,
                        bytesOf(part(m), sizeof(float)));
      transfers.send(members[m], back, data + mine.begin,
                     bytesOf(mine, sizeof(float)));
    }
    transfers.finish();
  }
}

// The queues of gathers, reductions and replicas are each in one call at most.
int64_t Network::stagingBytes(const Routes &routes, const Manifest &manifest) {
  int64_t most = 0, chunk = 0, images = 0;
  for (const Manifest::Unit &unit : manifest.units) {
    const Route &route = unit.sharded ? routes.group : routes.all;
    auto members = static_cast<int64_t>(route.members.size());
    chunk = std::max(chunk, sliceLength(unit.length, members));
    if (!unit.sharded || !route.leavesMachine() ||
        unit.gatherType == GatherDtype::Param)
      continue;
    int64_t slice =
        sliceLength(unit.length, members, manifest.sliceAlignment());
    images = std::max(images, (1 + static_cast<int64_t>(route.carried.size())) *
                                  gatherImageBytes(unit.gatherType, slice));
  }
  chunk = std::min(chunk, kChunk);
  for (const Route *route : {&routes.group, &routes.all})
    if (size_t others = route->carried.size() + route->carriers.size())
      most = std::max(most, (2 * static_cast<int64_t>(others) + 1) * chunk);
  return (most + (routes.columnLeavesMachine ? chunk : 0)) * 4 + images;
}

} // namespace shardonnx::rt
