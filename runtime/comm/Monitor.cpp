// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One poll over everything that can end a run from outside.

#include "Monitor.h"
#include "../support/Error.h"
#include <algorithm>
#include <csignal>
#include <fstream>
#include <poll.h>
#include <sstream>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace shardonnx::rt {
namespace {

constexpr int kPollMilliseconds = 200;
constexpr double kSecondsBetweenSigns = 1; // of life; five looks
constexpr double kSecondsBetweenBeats = 1; // to other machines
// Of no sign of life, then of nobody going on. Time in which this process was
// itself stopped does not count.
constexpr double kSilentSeconds = 15, kSilentMachineSeconds = 22;
constexpr double kDeadlockSeconds = 10;
constexpr double kMostPerLook = 1;
// A rank of another machine speaks first.
constexpr double kSecondsForTheirs = 5;

// Less for who waits less for the other ranks.
double silenceAllowed(const Control &control, double seconds) {
  constexpr double kLeast = 3;
  return std::max(kLeast, std::min(seconds, control.timeout() / 2));
}

// From /proc: the process's state, and whether a debugger holds it.
struct ProcessState {
  char state = '?';
  bool traced = false;
};
ProcessState stateOf(int pid) {
  ProcessState result;
  std::ifstream file(concat("/proc/", pid, "/status"));
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string key;
    int tracer = 0;
    words >> key;
    if (key == "State:")
      words >> result.state;
    else if (key == "TracerPid:" && words >> tracer)
      result.traced = tracer != 0;
  }
  return result;
}

std::string describeSilence(char state, double seconds) {
  if (state == 'T')
    return concat("was stopped (SIGSTOP or SIGTSTP) and not continued for ",
                  seconds, " s");
  if (state == 'D')
    return concat("has hung in the system (uninterruptible, as in a disk, "
                  "network file system or driver) for ",
                  seconds, " s");
  return concat("has given no sign of life for ", seconds, " s");
}

// As this process sees the one at the other end.
int processAt(int connection) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  return ::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0
             ? peer.pid
             : 0;
}

sigset_t terminationSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  if (!hangupIsIgnored())
    sigaddset(&set, SIGHUP);
  return set;
}

} // namespace

bool hangupIsIgnored() {
  struct sigaction action{};
  ::sigaction(SIGHUP, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

const char *signalName(int signal) {
  return signal == SIGINT ? "SIGINT" : signal == SIGTERM ? "SIGTERM" : "SIGHUP";
}

void blockTerminationSignals() {
  sigset_t set = terminationSignals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  // A closed pipe is a failed write, and so is a file at the limit of its size.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

Monitor::Monitor(Control &control, const Group &group, Exchange &exchange)
    : control(control), group(group), exchange(exchange),
      lives(group.peers.size()), lastLook(monotonicSeconds()) {
  sigset_t set = terminationSignals();
  signals = FileDescriptor(::signalfd(-1, &set, SFD_CLOEXEC));
  stop = FileDescriptor(::eventfd(0, EFD_CLOEXEC));
  if (!signals || !stop)
    fail("cannot watch the other ranks: ", systemError());
  thread = std::thread([this] { watch(); });
}

Monitor::~Monitor() {
  uint64_t one = 1;
  (void)!::write(stop.get(), &one, sizeof(one));
  thread.join();
}

void Monitor::readSignal() {
  signalfd_siginfo info{};
  if (::read(signals.get(), &info, sizeof(info)) !=
      static_cast<ssize_t>(sizeof(info)))
    return;
  int signal = static_cast<int>(info.ssi_signo);
  if (asksToStop(signal, info.ssi_code == SI_QUEUE, info.ssi_int))
    return;
  // The launcher, which may have got the same signal, speaks for its ranks.
  control.failNow(control.rank(), concat("stopped by ", signalName(signal)),
                  kExitFailure, kExitSignalled + signal);
}

// Whether the signal lets the step finish. torchrun sends SIGTERM behind a
// terminal's SIGINT: that is one request.
bool Monitor::asksToStop(int signal, bool queued, int value) {
  if (signal == SIGTERM)
    return (!queued || value != kEndAtOnce) &&
           control.askToStop(queued ? value : signal);
  if (signal != SIGINT)
    return false;
  double now = monotonicSeconds();
  if (interrupted < 0)
    interrupted = now;
  return now - interrupted < kSecondsOfOneRequest && control.askToStop(SIGINT);
}

bool Monitor::readPeer(size_t index) {
  const Peer &peer = group.peers[index];
  int rank = peer.rank;
  Exchange::News news = exchange.read(index, rank);
  switch (news) {
  case Exchange::News::Nothing:
    return true;
  case Exchange::News::Failed:
    control.followRemote(rank);
  case Exchange::News::Garbled:
    control.failNow(control.rank(),
                    concat("rank ", peer.rank,
                           " sent bytes that are none of "
                           "this program's messages"),
                    kExitFailure);
  case Exchange::News::Ended:
    return false;
  case Exchange::News::Closed:
  case Exchange::News::Lost:
    break;
  }
  if (peer.remote)
    remoteClosed(peer, news == Exchange::News::Lost);
  else
    localClosed(peer);
  return false;
}

void Monitor::localClosed(const Peer &peer) {
  RankBlock &block = control.block(peer.rank);
  if (block.finished.load())
    return;
  // Rank 0 sees the death of another machine's leader, too, and tells it.
  bool told =
      peer.rank != 0 && group.localRanks(peer.rank).front() == peer.rank;
  if (told)
    control.followRemote(peer.rank);
  control.failNow(peer.rank,
                  concat("rank ", peer.rank, " (process ", block.pid.load(),
                         ") died while ", control.activityOf(peer.rank),
                         ": it was killed or crashed; see its own "
                         "messages and the system's log"),
                  kExitFailure, kExitFollows);
}

// One rank speaks. Of rank 0: its machine's other ranks; when there are none,
// or the machine is gone, the first rank of the next machine.
bool Monitor::shouldReport(const Peer &remote, bool machineLost) const {
  bool others = group.localRanks(remote.rank).size() > 1;
  bool second = group.machines.machineOf[control.rank()] == 1;
  return control.rank() == 0 || (second && (!others || machineLost));
}

void Monitor::remoteClosed(const Peer &peer, bool machineLost) {
  if (!shouldReport(peer, machineLost))
    control.followRemote(peer.rank);
  const std::string &host = group.machines.hostOf(peer.rank);
  control.failNow(peer.rank,
                  machineLost
                      ? concat("host ", host, " of rank ", peer.rank,
                               " is out of reach: it or its network failed")
                      : concat("rank ", peer.rank, " (host ", host,
                               ") died while ", control.activityOf(peer.rank),
                               ": it was killed or crashed; see its own "
                               "messages and that host's log"),
                  kExitFailure);
}

// ---- Signs of life

void Monitor::checkBeats(size_t index, double seconds) {
  const Peer &peer = group.peers[index];
  Life &life = lives[index];
  RankBlock &block = control.block(peer.rank);
  uint64_t beats = block.beats.load();
  bool ended = life.ended || block.finished.load();
  life.silent = ended || beats != life.beats ? 0 : life.silent + seconds;
  life.beats = beats;
  if (peer.remote)
    remoteSilent(peer, life.silent);
  else
    localSilent(peer, life.silent);
}

// A stopped process ends by SIGKILL alone. Rank 0 speaks of another machine's
// leader, when it has not heard of it for long enough.
void Monitor::localSilent(const Peer &peer, double silent) {
  bool told =
      peer.rank != 0 && group.localRanks(peer.rank).front() == peer.rank;
  double allowed = silenceAllowed(control, kSilentSeconds);
  if (told)
    allowed =
        silenceAllowed(control, kSilentMachineSeconds) + kSecondsForTheirs;
  if (silent < allowed)
    return;
  int pid = processAt(peer.connection.get());
  ProcessState state = stateOf(pid);
  if (state.traced)
    return;
  std::string message = concat(
      "rank ", peer.rank, " (process ", control.block(peer.rank).pid.load(),
      ") ", describeSilence(state.state, allowed), " while ",
      control.activityOf(peer.rank), ": all ranks end");
  control.killAtExit(pid);
  if (told)
    control.followRemote(peer.rank);
  control.failNow(peer.rank, message, kExitFailure);
}

void Monitor::remoteSilent(const Peer &peer, double silent) {
  double allowed = silenceAllowed(control, kSilentMachineSeconds);
  bool speaks = shouldReport(peer, /*machineLost=*/false);
  if (silent < (speaks ? allowed : allowed + kSecondsForTheirs))
    return;
  if (!speaks)
    control.followRemote(peer.rank);
  control.failNow(peer.rank,
                  concat("rank ", peer.rank, " (host ",
                         group.machines.hostOf(peer.rank),
                         ") has given no sign of life for ", allowed,
                         " s while ", control.activityOf(peer.rank),
                         ": it was stopped, or its host or network failed"),
                  kExitFailure);
}

// All issuing threads of the machine wait, nothing is being copied or added,
// and no counter has moved: they wait for each other. A process that is stopped
// in a wait is no such thing, and is named when it has been silent for longer.
void Monitor::watchForDeadlock(double seconds) {
  uint32_t now = control.changes();
  bool isSilent = std::any_of(lives.begin(), lives.end(), [](const Life &life) {
    return life.silent > kSecondsBetweenSigns;
  });
  bool moves = now != changes || isSilent || !control.everybodySleeps();
  asleep = moves ? 0 : asleep + seconds;
  changes = now;
  if (asleep < kDeadlockSeconds)
    return;
  std::string all;
  for (int r = 0; r < control.ranks(); ++r)
    all += concat(r ? "; rank " : "rank ", r, " is ", control.activityOf(r));
  control.failNow(control.rank(),
                  "the ranks wait for each other, since they do not issue the "
                  "same collectives: " +
                      all,
                  kExitFailure);
}

void Monitor::checkPeers() {
  double now = monotonicSeconds();
  double seconds = std::min(now - lastLook, kMostPerLook);
  lastLook = now;
  control.beat();
  bool machines = group.machines.hosts.size() > 1;
  if (machines && now >= nextBeats) {
    nextBeats = now + kSecondsBetweenBeats;
    exchange.sendBeats();
  }
  for (size_t peer = 0; peer < lives.size(); ++peer)
    checkBeats(peer, seconds);
  if (!machines && control.rank() == 0 && control.ranks() > 1)
    watchForDeadlock(seconds);
}

void Monitor::watch() {
  std::vector<pollfd> fds;
  fds.push_back({stop.get(), POLLIN, 0});
  fds.push_back({signals.get(), POLLIN, 0});
  for (const Peer &peer : group.peers)
    fds.push_back({peer.connection.get(), POLLIN, 0});
  while (true) {
    ::poll(fds.data(), fds.size(), kPollMilliseconds);
    if (fds[0].revents)
      return;
    if (control.failed())
      control.follow();
    if (fds[1].revents & POLLIN)
      readSignal();
    for (size_t i = 2; i < fds.size(); ++i)
      if (fds[i].revents && !readPeer(i - 2)) {
        fds[i].fd = -1; // it ended well
        lives[i - 2].ended = true;
      }
    checkPeers();
  }
}

} // namespace shardonnx::rt
