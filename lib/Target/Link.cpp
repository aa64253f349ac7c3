// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Links a program with ld.lld: through the C++ compiler's driver, which knows
// where its C library lies, or with the toolchain that a package brings.
// Everything but the C library is linked statically.

#include "shardonnx/Target/Link.h"
#include "shardonnx/Support/TemporaryFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Object/ArchiveWriter.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <array>
#include <atomic>
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

using namespace shardonnx;
using llvm::ArrayRef;
using llvm::SmallString;
using llvm::StringRef;

static llvm::Error failWith(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

// The program as configured, else one of its name on PATH.
static llvm::Expected<std::string> findProgram(StringRef configured,
                                               StringRef what) {
  if (llvm::sys::fs::can_execute(configured))
    return configured.str();
  if (auto found =
          llvm::sys::findProgramByName(llvm::sys::path::filename(configured)))
    return *found;
  return failWith("cannot find " + configured + ", the " + what +
                  " that makes executables: install it or run ./setup");
}

// Of this name in the lib folder beside this program: that of the build, or of
// where it was installed.
static std::optional<std::string> findBeside(StringRef name) {
  static int anchor;
  std::string self = llvm::sys::fs::getMainExecutable("shardonnx", &anchor);
  StringRef bin = llvm::sys::path::parent_path(self);
  for (StringRef library : {StringRef("lib"), StringRef(SHARDONNX_LIBDIR)}) {
    SmallString<256> path(llvm::sys::path::parent_path(bin));
    llvm::sys::path::append(path, library, name);
    if (llvm::sys::fs::exists(path))
      return path.str().str();
  }
  return std::nullopt;
}

static llvm::Expected<std::string> findRuntime(StringRef file) {
  if (std::optional<std::string> path = findBeside(file))
    return *path;
  return failWith("cannot find " + file +
                  " in the lib folder beside the one of this program: build "
                  "or install it");
}

// What a package for bare machines has with it: a linker, and the C and C++
// libraries to link with (cmake/ShardonnxToolchain.cmake).
static std::optional<std::string> findToolchain() {
  return findBeside("shardonnx/toolchain");
}

static llvm::Expected<std::string> findLinker() {
  if (std::optional<std::string> toolchain = findToolchain())
    return *toolchain + "/bin/ld.lld";
  return findProgram(SHARDONNX_LLD, "linker");
}

// The first line that says what went wrong.
static std::string firstError(StringRef log) {
  llvm::SmallVector<StringRef> lines;
  log.split(lines, '\n');
  for (StringRef line : lines)
    if (line.contains("error:"))
      return line.substr(line.find("error:") + 6).trim().str();
  return lines.empty() ? std::string() : lines[0].trim().str();
}

namespace {

/// While it lives, a signal that ends this program ends the linker first, which
/// would else go on by itself and write its file after ours were removed. The
/// compiler driver and what it starts are one session.
class LinkerSession {
public:
  LinkerSession() {
    session = asked = 0;
    struct sigaction action{};
    action.sa_handler = end;
    for (size_t i = 0; i < kSignals.size(); ++i) {
      ::sigaction(kSignals[i], nullptr, &before[i]);
      if (before[i].sa_handler != SIG_IGN)
        ::sigaction(kSignals[i], &action, nullptr);
    }
  }
  ~LinkerSession() {
    restore();
    if (int signal = asked) // and the linker did not begin
      ::raise(signal);
  }
  LinkerSession(const LinkerSession &) = delete;
  LinkerSession &operator=(const LinkerSession &) = delete;

  void begins(pid_t pid) {
    session = pid;
    if (int signal = asked)
      end(signal);
  }
  /// Behind the linker's end: where a signal was the cause, the handler, which
  /// may run on another thread, ends this program.
  static void wasAsked() {
    while (asked != 0)
      ::pause();
  }

private:
  static void restore() {
    for (size_t i = 0; i < kSignals.size(); ++i)
      ::sigaction(kSignals[i], &before[i], nullptr);
  }
  static void end(int signal) {
    asked = signal;
    pid_t pid = session;
    if (pid == 0) // the linker is about to begin
      return;
    // The driver and what it starts remove their own files when they are asked
    // once. Before the driver has a session it is alone. Its status is for the
    // thread that waits for it, if that is another one.
    constexpr int kTries = 200, kGrace = 20;
    if (::kill(-pid, SIGTERM) != 0)
      ::kill(pid, SIGTERM);
    siginfo_t ended{};
    bool gone = false;
    for (int i = 0, left = kTries; i < left; ++i) {
      ::usleep(5000);
      if (!gone && (::waitid(P_PID, static_cast<id_t>(pid), &ended,
                             WEXITED | WNOHANG | WNOWAIT) != 0 ||
                    ended.si_pid != 0)) {
        gone = true;
        left = i + kGrace;
      }
    }
    if (::kill(-pid, SIGKILL) != 0 && !gone)
      ::kill(pid, SIGKILL);
    restore(); // those that remove files
    ::raise(signal);
  }

  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
  static inline std::atomic<pid_t> session{0};
  static inline std::atomic<int> asked{0};
  static inline std::array<struct sigaction, kSignals.size()> before;
};

} // namespace

// The linker writes into memory that stands for the file: where the disk has no
// room for it, that is a signal, and not an error of write(2).
static bool saysDiskIsFull(StringRef text) {
  return text.contains("Bus error") || text.contains("No space left on device");
}

// `output` is what the user knows it as.
static llvm::Error runLinker(ArrayRef<std::string> command,
                             LinkerSession &session, StringRef output) {
  SmallString<128> log;
  if (std::error_code error =
          llvm::sys::fs::createTemporaryFile("shardonnx-link", "log", log))
    return failWith(cannotWriteTemporary(error));
  TemporaryFile removeLog(log);
  llvm::SmallVector<StringRef> arguments(command.begin(), command.end());
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(log),
                                          StringRef(log)};
  std::string message;
  bool failed = false;
  llvm::sys::ProcessInfo started = llvm::sys::ExecuteNoWait(
      command[0], arguments, std::nullopt, redirects, 0, &message, &failed,
      nullptr, /*DetachProcess=*/true);
  int status = 1;
  if (!failed && started.Pid > 0) {
    session.begins(started.Pid);
    status = llvm::sys::Wait(started, std::nullopt, &message).ReturnCode;
    LinkerSession::wasAsked();
  }
  if (status == 0)
    return llvm::Error::success();
  std::string said = message;
  if (auto text = llvm::MemoryBuffer::getFile(log)) {
    said += (*text)->getBuffer();
    if (message.empty())
      message = firstError((*text)->getBuffer());
  }
  if (saysDiskIsFull(said))
    return failWith("cannot write '" + output + "': No space left on device");
  return failWith("the link failed: " + message);
}

// Through the compiler's driver, which names the C library and what starts and
// ends a program.
static llvm::Expected<std::vector<std::string>>
driverCommand(StringRef linker, ArrayRef<std::string> inputs, bool cuda) {
  auto compiler = findProgram(SHARDONNX_LINK_DRIVER, "compiler driver");
  if (!compiler)
    return compiler.takeError();
  std::vector<std::string> command = {
      *compiler, "-fuse-ld=lld",
      "-B" + llvm::sys::path::parent_path(linker).str()};
  llvm::append_range(command, inputs);
  // CUDA's libraries are loaded at run time.
  if (!cuda)
    command.push_back("-l:libgomp.a");
  command.insert(command.end(), {"-l:libz.a", "-static-libstdc++",
                                 "-static-libgcc", "-pthread", "-ldl", "-lm",
                                 "-Wl,--gc-sections", "-Wl,--strip-debug"});
  return command;
}

// The same link where no compiler is: what the driver would have named lies in
// the toolchain's folder.
static std::vector<std::string> toolchainCommand(StringRef linker,
                                                 const std::string &toolchain,
                                                 ArrayRef<std::string> inputs,
                                                 bool cuda) {
  std::string folder = toolchain + "/link/";
  std::vector<std::string> command = {linker.str(),
                                      "--eh-frame-hdr",
                                      "--hash-style=gnu",
                                      "--build-id",
                                      "-dynamic-linker",
                                      "/lib64/ld-linux-x86-64.so.2",
                                      "-pie",
                                      folder + "Scrt1.o",
                                      folder + "crti.o",
                                      folder + "crtbeginS.o"};
  llvm::append_range(command, inputs);
  command.push_back("-L" + folder);
  if (!cuda)
    command.push_back("-l:libgomp.a");
  command.insert(command.end(),
                 {"-l:libz.a", "-l:libstdc++.a", "-l:libgcc.a",
                  "-l:libgcc_eh.a", "-l:libc_nonshared.a", "--as-needed",
                  "-l:libm.so.6", "-l:libmvec.so.1", "-l:libc.so.6",
                  "-l:ld-linux-x86-64.so.2", folder + "crtendS.o",
                  folder + "crtn.o", "--gc-sections", "--strip-debug"});
  return command;
}

static llvm::Expected<std::vector<std::string>>
linkCommand(StringRef archivePath, StringRef outputPath, bool cuda) {
  auto linker = findLinker();
  if (!linker)
    return linker.takeError();
  auto runtime = findRuntime(cuda ? "libshardonnx_runtime_cuda.a"
                                  : "libshardonnx_runtime.a");
  if (!runtime)
    return runtime.takeError();
  std::optional<std::string> toolchain = findToolchain();
  std::string whole = toolchain ? "" : "-Wl,"; // for the driver's linker
  std::vector<std::string> inputs = {"-o",
                                     outputPath.str(),
                                     whole + "--whole-archive",
                                     archivePath.str(),
                                     whole + "--no-whole-archive",
                                     *runtime};
  if (toolchain)
    return toolchainCommand(*linker, *toolchain, inputs, cuda);
  return driverCommand(*linker, inputs, cuda);
}

// The linker writes beside its output, under that name and more. Where a signal
// ends it, what it had written may stay: its threads race for the removal.
static void removeHalves(StringRef outputPath) {
  std::string prefix = (llvm::sys::path::filename(outputPath) + ".tmp").str();
  StringRef folder = llvm::sys::path::parent_path(outputPath);
  std::error_code error;
  llvm::sys::fs::directory_iterator entry(folder.empty() ? "." : folder, error);
  for (; !error && entry != llvm::sys::fs::directory_iterator();
       entry.increment(error))
    if (llvm::sys::path::filename(entry->path()).starts_with(prefix))
      llvm::FileRemover remover(entry->path());
}

static llvm::Error linkExecutableFrom(StringRef archivePath,
                                      StringRef outputPath, bool cuda) {
  LinkerSession session; // from before there is a file
  std::string whole;
  int descriptor = -1;
  if (std::error_code error =
          TemporaryFile::createBeside(outputPath, descriptor, whole))
    return failWith("cannot write '" + outputPath + "': " + error.message());
  llvm::sys::fs::file_t file = descriptor;
  TemporaryFile half(whole);
  if (std::error_code error = llvm::sys::fs::closeFile(file))
    return failWith("cannot write '" + outputPath + "': " + error.message());
  auto command = linkCommand(archivePath, whole, cuda);
  if (!command)
    return command.takeError();
  if (llvm::Error error = runLinker(*command, session, outputPath)) {
    removeHalves(whole);
    return error;
  }
  if (std::error_code error = half.moveTo(outputPath))
    return failWith("cannot write '" + outputPath + "': " + error.message());
  return llvm::Error::success();
}

// The objects as a file, for the linker: an archive, of which it is to take
// everything.
static llvm::Error writeObjects(ArrayRef<ObjectBytes> objects,
                                SmallString<128> &path) {
  std::vector<llvm::NewArchiveMember> members;
  for (const auto &[index, object] : llvm::enumerate(objects))
    members.emplace_back(llvm::MemoryBufferRef(
        StringRef(object.data(), object.size()), "part.o"));
  auto archive = llvm::writeArchiveToBuffer(
      members, llvm::SymtabWritingMode::NoSymtab, llvm::object::Archive::K_GNU,
      /*Deterministic=*/true, /*Thin=*/false);
  if (!archive)
    return archive.takeError();
  int descriptor = -1;
  if (std::error_code error = llvm::sys::fs::createTemporaryFile(
          "shardonnx", "a", descriptor, path))
    return failWith(cannotWriteTemporary(error));
  TemporaryFile::removeOnSignal(path);
  llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
  stream << (*archive)->getBuffer();
  stream.close();
  if (!stream.has_error())
    return llvm::Error::success();
  std::error_code error = stream.error();
  stream.clear_error();
  return failWith(cannotWriteTemporary(error));
}

llvm::Error shardonnx::linkExecutable(ArrayRef<ObjectBytes> objects,
                                      StringRef outputPath, bool cuda) {
  SmallString<128> path;
  llvm::Error error = writeObjects(objects, path);
  TemporaryFile removeObjects(path);
  if (error)
    return error;
  return linkExecutableFrom(path, outputPath, cuda);
}

// All objects together, as `kind` says.
static llvm::Error linkTogether(ArrayRef<ObjectBytes> objects, StringRef kind,
                                StringRef outputPath) {
  SmallString<128> path;
  llvm::Error error = writeObjects(objects, path);
  TemporaryFile removeObjects(path);
  if (error)
    return error;
  auto linker = findLinker();
  if (!linker)
    return linker.takeError();
  LinkerSession session;
  return runLinker({*linker, kind.str(), "--threads=1", "-o", outputPath.str(),
                    "--whole-archive", path.str().str()},
                   session, outputPath);
}

// The runtime's calls are those of the program that loads it.
llvm::Error shardonnx::linkLibrary(ArrayRef<ObjectBytes> objects,
                                   StringRef outputPath) {
  return linkTogether(objects, "-shared", outputPath);
}

llvm::Expected<ObjectBytes>
shardonnx::combineObjects(ArrayRef<ObjectBytes> objects) {
  SmallString<128> path;
  if (std::error_code error =
          llvm::sys::fs::createTemporaryFile("shardonnx", "o", path))
    return failWith(cannotWriteTemporary(error));
  TemporaryFile removeObject(path);
  if (llvm::Error error = linkTogether(objects, "--relocatable", path))
    return error;
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false);
  if (!file)
    return failWith("cannot read from the temporary folder: " +
                    file.getError().message());
  return ObjectBytes((*file)->getBufferStart(), (*file)->getBufferEnd());
}

llvm::Expected<std::string> shardonnx::findEvalProgram() {
  return findRuntime("shardonnx-eval");
}
