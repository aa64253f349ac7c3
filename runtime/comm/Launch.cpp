// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Processes and their environment.

#include "Launch.h"
#include "../support/Error.h"
#include "Control.h"
#include "Cores.h"
#include "CpuQuota.h"
#include "Monitor.h"
#include "shardonnx/runtime/AskedThreads.h"
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace shardonnx::rt {
namespace {

constexpr const char *kSelf = "/proc/self/exe";
constexpr const char *kPrepared = "SHARDONNX_THREADS_PREPARED";
// Ranks end by themselves when one of them fails; these are for the rest.
constexpr double kSecondsUntilInterrupt = 5, kSecondsUntilKill = 10;

// Spinning threads keep the communication thread from a core that they share;
// sleeping at once costs a system call for every parallel loop.
constexpr const char *kSpinCount = "20000";

std::vector<std::pair<std::string, std::string>>
threadEnvironment(int threads) {
  std::string count = std::to_string(threads);
  return {{"OMP_NUM_THREADS", count},
          {"OMP_DYNAMIC", "false"},
          {"OMP_MAX_ACTIVE_LEVELS", "1"},
          {"OMP_PROC_BIND", "false"},
          {"GOMP_SPINCOUNT", kSpinCount}};
}

void setThreadEnvironment(int threads) {
  for (auto &[name, value] : threadEnvironment(threads))
    ::setenv(name.c_str(), value.c_str(), 1);
  ::unsetenv("OMP_WAIT_POLICY"); // would overrule the spin count
  ::setenv(kPrepared, "1", 1);
}

// Whether the user asked the launcher to give each rank cores of its own.
bool boundByLauncher(const RankInfo &info) {
  if (const char *policy = std::getenv("OMPI_MCA_hwloc_base_binding_policy"))
    return info.launcher == "mpirun" && std::strcmp(policy, "none") != 0;
  return info.launcher == "srun" && std::getenv("SLURM_CPUS_PER_TASK");
}

struct Child {
  pid_t pid = -1;
  bool running = false;
  int status = 0;
  bool endedByUs = false;
};

sigset_t launcherSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (int s : {SIGCHLD, SIGINT, SIGTERM})
    sigaddset(&set, s);
  if (!hangupIsIgnored())
    sigaddset(&set, SIGHUP);
  return set;
}

[[noreturn]] void becomeRank(int rank, pid_t launcher, char **argv) {
  sigset_t set = launcherSignals();
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) // it died before we asked
    ::_exit(kExitFollows);
  ::setenv(kRankVariable, std::to_string(rank).c_str(), 1);
  ::execv(kSelf, argv);
  printError(concat("cannot start rank ", rank, ": ", systemError()));
  ::_exit(kExitFailure);
}

class Launcher {
public:
  Launcher(int ranks, char **argv) : children(static_cast<size_t>(ranks)) {
    signals = launcherSignals();
    ::sigprocmask(SIG_BLOCK, &signals, nullptr);
    ::setenv(kWorldSizeVariable, std::to_string(ranks).c_str(), 1);
    ::setenv(kMeetingVariable,
             concat(::getpid(), ".", monotonicSeconds()).c_str(), 1);
    note = FileDescriptor(::memfd_create("shardonnx-note", 0)); // inherited
    if (note)
      ::setenv(kNoteVariable, std::to_string(note.get()).c_str(), 1);
    RankInfo child;
    child.localWorldSize = ranks;
    setThreadEnvironment(threadsPerRank(child));
    pid_t self = ::getpid();
    for (int r = 0; r < ranks; ++r) {
      Child &child = children[static_cast<size_t>(r)];
      child.pid = ::fork();
      if (child.pid == 0)
        becomeRank(r, self, argv);
      child.running = child.pid > 0;
      if (!child.running) {
        message = concat("cannot start rank ", r, ": ", systemError());
        beginEnd();
        break;
      }
    }
  }

  int run() {
    while (anyRunning()) {
      timespec pause{0, 100'000'000};
      int signal = ::sigtimedwait(&signals, nullptr, &pause);
      if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP)
        receive(signal);
      collect();
      if (ending)
        pressOn();
    }
    return conclude();
  }

private:
  bool anyRunning() const {
    return std::any_of(children.begin(), children.end(),
                       [](const Child &c) { return c.running; });
  }
  // At the first request the ranks finish their step, save, and end well; those
  // that do not train yet end at once.
  void receive(int signal) {
    if (asked == 0 && signal != SIGHUP && !ending) {
      asked = signal;
      askedAt = monotonicSeconds();
      tellAll(signal);
      return;
    }
    if (asked != 0 && monotonicSeconds() - askedAt < kSecondsOfOneRequest)
      return;
    if (message.empty())
      message = concat("stopped by ", signalName(signal));
    endAll();
    beginEnd();
  }
  void tellAll(int value) {
    sigval word{};
    word.sival_int = value;
    for (Child &child : children)
      if (child.running)
        ::sigqueue(child.pid, SIGTERM, word);
  }
  void beginEnd() {
    if (!ending)
      endBegan = monotonicSeconds();
    ending = true;
  }
  void endAll() {
    for (Child &child : children)
      child.endedByUs |= child.running;
    tellAll(kEndAtOnce);
  }
  void pressOn() {
    double waited = monotonicSeconds() - endBegan;
    if (waited > kSecondsUntilInterrupt)
      endAll();
    if (waited > kSecondsUntilKill)
      for (Child &child : children)
        if (child.running)
          ::kill(child.pid, SIGKILL);
  }
  void collect() {
    int status;
    pid_t pid;
    while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0)
      for (size_t r = 0; r < children.size(); ++r)
        if (children[r].pid == pid && children[r].running) {
          children[r].running = false;
          children[r].status = status;
          noteEnd(static_cast<int>(r), children[r]);
        }
  }
  // The first rank that ended by a signal which we did not send is the cause.
  void noteEnd(int rank, const Child &child) {
    if (WIFEXITED(child.status) && WEXITSTATUS(child.status) == kExitDone)
      return;
    beginEnd();
    int by = WIFSIGNALED(child.status)
                 ? WTERMSIG(child.status)
                 : WEXITSTATUS(child.status) - kExitSignalled;
    if (asked != 0 && (by == SIGTERM || by == SIGINT) && message.empty())
      message = concat("stopped by ", signalName(asked));
    if (WIFSIGNALED(child.status) && !child.endedByUs && message.empty()) {
      int signal = WTERMSIG(child.status);
      message = concat("rank ", rank, " (process ", child.pid,
                       ") was killed by signal ", signal, " (",
                       ::strsignal(signal), ")");
      diedOf = signal;
    } else if (WIFEXITED(child.status) && !child.endedByUs &&
               WEXITSTATUS(child.status) > kExitSignalled && message.empty()) {
      int signal = WEXITSTATUS(child.status) - kExitSignalled;
      message = concat("rank ", rank, " (process ", child.pid,
                       ") was stopped by ", signalName(signal));
    }
  }
  // Of a rank that died, what it did, as the others saw it, and where they have
  // written down more.
  std::pair<std::string, std::string> whatItDid() const {
    char text[kNoteBytes];
    ssize_t n = note ? ::pread(note.get(), text, sizeof(text), 0) : 0;
    std::string all(text, static_cast<size_t>(std::max<ssize_t>(n, 0)));
    size_t line = std::min(all.find('\n'), all.size());
    std::string did = all.substr(0, line);
    return {did.empty() ? did : " while " + did,
            line < all.size() ? all.substr(line + 1) : ""};
  }
  // A rank that reported a failure may have killed one that did not answer.
  bool aRankSpoke() const {
    return std::any_of(children.begin(), children.end(), [](const Child &c) {
      return WIFEXITED(c.status) && WEXITSTATUS(c.status) == kExitFailure;
    });
  }
  int conclude() {
    if (diedOf != 0 && aRankSpoke())
      return kExitFailure;
    auto [did, record] = whatItDid();
    if (diedOf != 0)
      message += did;
    if (diedOf == SIGKILL)
      message += ", by someone or for want of memory: see the system's log";
    if (diedOf != 0)
      message += record;
    if (!message.empty()) {
      printError(message);
      return kExitFailure;
    }
    int worst = kExitDone, follower = -1;
    for (size_t r = 0; r < children.size(); ++r) {
      int code = WIFEXITED(children[r].status) ? WEXITSTATUS(children[r].status)
                                               : static_cast<int>(kExitFailure);
      if (code == kExitFollows)
        follower = static_cast<int>(r);
      else if (code == kExitUsage && worst == kExitDone)
        worst = kExitUsage;
      else if (code != kExitDone && code != kExitUsage)
        worst = kExitFailure;
    }
    // Some rank followed one that ended early, yet with a good exit code.
    if (worst == kExitDone && follower >= 0) {
      printError(concat("rank ", follower, " lost the other ranks"));
      return kExitFailure;
    }
    return worst;
  }

  static constexpr size_t kNoteBytes = 1024;
  std::vector<Child> children;
  sigset_t signals;
  FileDescriptor note;
  int diedOf = 0; // the signal that killed the rank of `message`
  std::string message;
  bool ending = false;
  int asked = 0; // the signal that asked for an end after the step
  double endBegan = 0, askedAt = 0;
};

} // namespace

static int countCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = ::sched_getaffinity(0, sizeof(set), &set) == 0
                  ? CPU_COUNT(&set)
                  : static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  if (std::optional<double> quota = cpuQuota(); quota && *quota < cores)
    cores = static_cast<int>(std::ceil(*quota));
  return std::max(1, cores);
}

int availableCores() {
  // Asked first before this rank keeps to some of them.
  static const int cores = countCores();
  return cores;
}

int threadsPerRank(const RankInfo &info) {
  AskedThreads asked = askedThreads();
  if (!asked.wrong.empty())
    failUsage(asked.wrong);
  if (asked.threads > 0)
    return asked.threads;
  if (boundByLauncher(info)) // the cores are this rank's alone
    return availableCores();
  return std::max(1, availableCores() / info.localWorldSize);
}

int launchRanks(int ranks, char **argv) { return Launcher(ranks, argv).run(); }

void undoDefaultBinding(const RankInfo &info) {
  if (!std::getenv("OMPI_COMM_WORLD_RANK") || boundByLauncher(info))
    return;
  cpu_set_t all; // the kernel keeps what this process may use
  std::memset(&all, 0xff, sizeof(all));
  ::sched_setaffinity(0, sizeof(all), &all);
}

void keepMemoryNear(const RankInfo &info) {
  int threads = threadsPerRank(info);
  if (!boundByLauncher(info))
    stayOnMemoryNode(info, threads);
}

void ensureThreadEnvironment(const RankInfo &info, char **argv) {
  if (std::getenv(kPrepared)) {
    ::unsetenv(kPrepared); // not for the processes that we may start
    return;
  }
  int threads = threadsPerRank(info);
  setThreadEnvironment(threads);
  ::execv(kSelf, argv);
  printWarning(
      concat("cannot restart with ", threads, " threads: ", systemError()));
}

} // namespace shardonnx::rt
