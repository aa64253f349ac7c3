// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the ranks tell each other over the connections of the rendezvous once
// they have met: bytes that all need (identifiers of communicators, choices
// made by timing), barriers across machines, and that a rank failed or ended.
// Ranks talk to the leader of their machine, leaders to rank 0. The monitor
// thread reads; the issuing thread writes and waits.

#ifndef SHARDONNX_RUNTIME_EXCHANGE_H
#define SHARDONNX_RUNTIME_EXCHANGE_H

#include "Control.h"
#include "Rendezvous.h"
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace shardonnx::rt {

class Exchange {
public:
  /// Of which rank a message of failure speaks, and what a peer has to say.
  enum class News { Nothing, Failed, Ended, Closed, Lost, Garbled };

  Exchange(Control &control, const Group &group);
  /// Where there are several machines, barriers and failures go through here.
  void connect(const RankInfo &info);

  const std::string &hostOf(int rank) const {
    return group.machines.hostOf(rank);
  }

  /// Calls that all ranks make in one order, on the issuing thread.
  /// What each rank gives, by rank.
  std::vector<std::string> allGather(const std::string &mine,
                                     Activity activity = Activity::Exchange);
  /// Rank 0's bytes.
  std::string broadcast(const std::string &bytes,
                        Activity activity = Activity::Exchange);
  /// Waits for all ranks; afterwards their blocks of the control block say how
  /// much memory they use, wherever they run.
  void barrier(Activity activity);

  /// For the monitor: reads what has come from group.peers[peer]. `rank` is set
  /// to who failed.
  News read(size_t peer, int &rank);
  /// Tells the other machines, once, that a rank of this one failed and has
  /// said so; or that this machine's part ended well.
  void announceFailure(int rank);
  void announceEnd();
  /// The monitor's sign of life to other machines: what its ranks are doing.
  void sendBeats();

private:
  enum Kind : uint32_t { Up, Down, Failed, Ended, Beat };
  struct Header {
    uint32_t magic, kind;
    uint64_t round; // Up, Down
    int64_t rank;   // Failed
    uint64_t bytes;
  };
  struct Inbox { // of one peer; the monitor's alone
    std::string bytes;
    bool ended = false;
  };
  void send(size_t peer, Kind kind, int rank, const std::string &bytes);
  bool takeBeat(const std::string &bytes);
  bool takeMessage(Inbox &inbox, Header &header, std::string &payload);
  std::string collect(const std::string &mine, size_t &count,
                      Activity activity);
  bool leads() const;

  Control &control;
  const Group &group;
  std::vector<Inbox> inboxes; // [peer]
  uint64_t round = 0;
  std::mutex mutex; // of what the monitor hands over
  std::map<uint64_t, std::vector<std::string>> ups;
  std::map<uint64_t, std::string> downs;
  std::timed_mutex sending;
  std::atomic<bool> announced{false};
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_EXCHANGE_H
