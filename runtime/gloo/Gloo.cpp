// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Gloo.h. Only Gloo's pairs and unbound buffers are used: which bytes go
// where, and in what order they are added, is the runtime's to say.

#include "Gloo.h"
#include <chrono>
#include <cstring>
#include <exception>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/tcp/device.h>
#include <memory>
#include <stdexcept>
#include <sys/random.h>
#include <vector>

namespace tcp = gloo::transport::tcp;

struct ShxGloo {
  std::shared_ptr<gloo::transport::Device> device;
  std::shared_ptr<gloo::transport::Context> context;
};

struct ShxGlooTransfer {
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
  bool sends;
};

namespace {

constexpr uint64_t kTokenSlot = ~uint64_t(0); // of no collective
constexpr size_t kTokenBytes = 16;

// A rank that hangs is noticed by the runtime, which knows what it does.
constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);

template <typename Call>
auto guarded(ShxGlooError *error, Call call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::exception &e) {
    std::strncpy(error->text, e.what(), sizeof(error->text) - 1);
    error->text[sizeof(error->text) - 1] = '\0';
    return {};
  }
}

// What a rank says: its token, and for each of its peers a head and the address
// of this end.
struct Head {
  int32_t peer, bytes;
};

void append(std::vector<char> &said, int peer,
            const std::vector<char> &address) {
  Head head{peer, static_cast<int32_t>(address.size())};
  auto *from = reinterpret_cast<const char *>(&head);
  said.insert(said.end(), from, from + sizeof(head));
  said.insert(said.end(), address.begin(), address.end());
}

std::vector<char> addressFor(int rank, const char *said, size_t count) {
  Head head{};
  for (size_t at = kTokenBytes; count > at && count - at >= sizeof(head);) {
    std::memcpy(&head, said + at, sizeof(head));
    at += sizeof(head);
    auto length = static_cast<size_t>(head.bytes);
    if (head.bytes < 0 || count - at < length)
      break;
    if (head.peer == rank)
      return std::vector<char>(said + at, said + at + length);
    at += length;
  }
  throw std::runtime_error("a rank did not say its address");
}

std::vector<char> drawToken() {
  std::vector<char> token(kTokenBytes);
  if (::getrandom(token.data(), token.size(), 0) !=
      static_cast<ssize_t>(token.size()))
    throw std::runtime_error("cannot draw a random number");
  return token;
}

// Gloo takes who comes to a pair's port first. A rank sends each peer the
// peer's token, and no stranger knows it.
void exchangeTokens(ShxGloo &gloo, const std::vector<char> &own,
                    const int *peers,
                    const std::vector<std::vector<char>> &tokens) {
  using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;
  std::vector<std::vector<char>> sent = tokens, heard = tokens;
  std::vector<Buffer> sends, receives;
  for (size_t i = 0; i < tokens.size(); ++i) {
    heard[i].assign(kTokenBytes, '\0');
    sends.push_back(
        gloo.context->createUnboundBuffer(sent[i].data(), kTokenBytes));
    receives.push_back(
        gloo.context->createUnboundBuffer(heard[i].data(), kTokenBytes));
    sends.back()->send(peers[i], kTokenSlot);
    receives.back()->recv(peers[i], kTokenSlot);
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    sends[i]->waitSend(nullptr, gloo.context->getTimeout());
    receives[i]->waitRecv(nullptr, gloo.context->getTimeout());
    if (heard[i] != own)
      throw std::runtime_error("a stranger is where a rank should be");
  }
}

ShxGloo *openPairs(int rank, int ranks, const int *peers, size_t peerCount,
                   const tcp::attr &at, double timeoutSeconds,
                   const ShxGlooMeeting &meeting) {
  auto gloo = std::make_unique<ShxGloo>();
  gloo->device = tcp::CreateDevice(at);
  gloo->context = gloo->device->createContext(rank, ranks);
  gloo->context->setTimeout(
      std::chrono::milliseconds(static_cast<int64_t>(timeoutSeconds * 1000)));
  std::vector<char> mine = drawToken(), own = mine;
  for (size_t i = 0; i < peerCount; ++i)
    append(mine, peers[i],
           gloo->context->createPair(peers[i])->address().bytes());
  meeting.say(meeting.user, mine.data(), mine.size());
  std::vector<std::vector<char>> tokens; // of the peers
  for (size_t i = 0; i < peerCount; ++i) {
    const char *bytes = nullptr;
    size_t count = meeting.heard(meeting.user, peers[i], &bytes);
    gloo->context->getPair(peers[i])->connect(addressFor(rank, bytes, count));
    tokens.emplace_back(bytes, bytes + kTokenBytes);
  }
  exchangeTokens(*gloo, own, peers, tokens);
  return gloo.release();
}

ShxGloo *open(int rank, int ranks, const int *peers, size_t peerCount,
              const char *address, const char *interface, double timeoutSeconds,
              ShxGlooMeeting meeting, ShxGlooError *error) {
  tcp::attr at;
  at.hostname = address;
  at.iface = interface;
  return guarded(error, [&] {
    return openPairs(rank, ranks, peers, peerCount, at, timeoutSeconds,
                     meeting);
  });
}

void close(ShxGloo *gloo) {
  std::unique_ptr<ShxGloo> owned(gloo);
  ShxGlooError ignored{};
  guarded(&ignored, [&] {
    owned.reset();
    return true;
  });
}

ShxGlooTransfer *start(ShxGloo *gloo, bool sends, int peer, uint64_t slot,
                       void *data, size_t bytes, ShxGlooError *error) {
  return guarded(error, [&] {
    auto transfer = std::make_unique<ShxGlooTransfer>();
    transfer->buffer = gloo->context->createUnboundBuffer(data, bytes);
    transfer->sends = sends;
    if (sends)
      transfer->buffer->send(peer, slot);
    else
      transfer->buffer->recv(peer, slot);
    return transfer.release();
  });
}

ShxGlooTransfer *sendTo(ShxGloo *gloo, int peer, uint64_t slot,
                        const void *from, size_t bytes, ShxGlooError *error) {
  return start(gloo, true, peer, slot, const_cast<void *>(from), bytes, error);
}

ShxGlooTransfer *receiveFrom(ShxGloo *gloo, int peer, uint64_t slot, void *to,
                             size_t bytes, ShxGlooError *error) {
  return start(gloo, false, peer, slot, to, bytes, error);
}

bool finish(ShxGlooTransfer *raw, ShxGlooError *error) {
  std::unique_ptr<ShxGlooTransfer> transfer(raw);
  return guarded(error, [&] {
    return transfer->sends ? transfer->buffer->waitSend(nullptr, kForever)
                           : transfer->buffer->waitRecv(nullptr, kForever);
  });
}

} // namespace

extern "C" __attribute__((visibility("default"))) const ShxGlooFunctions *
shx_gloo() {
  static const ShxGlooFunctions functions = {open, close, sendTo, receiveFrom,
                                             finish};
  return &functions;
}
