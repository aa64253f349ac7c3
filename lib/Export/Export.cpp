// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// shardonnx export: the weights of a checkpoint as other programs read them.

#include "Export.h"

#include "../../runtime/checkpoint/Folder.h"
#include "../../runtime/support/Error.h"
#include "shardonnx/runtime/EndsWith.h"
#include "shardonnx/runtime/SameFile.h"

#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <unistd.h>

namespace shardonnx {

static void failToWrite(const std::string &path, std::error_code error) {
  rt::fail("cannot write '", path, "': ", error.message(),
           "; -o needs a folder with room that can be written");
}

// A device or a pipe would be replaced.
static void checkIsReplaceable(const std::string &path) {
  std::error_code ignored;
  std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(status) &&
      !std::filesystem::is_regular_file(status) &&
      !std::filesystem::is_directory(status))
    rt::fail("-o: '", path, "' is no regular file; name another, or -o -");
}

OutputFile::OutputFile(std::string to) : path(std::move(to)) {
  int descriptor = STDOUT_FILENO;
  if (path != kStandardOutput) {
    checkIsReplaceable(path);
    std::string name;
    if (std::error_code error =
            TemporaryFile::createBeside(path, descriptor, name))
      failToWrite(path, error);
    temporary = std::make_unique<TemporaryFile>(name);
  }
  stream = std::make_unique<llvm::raw_fd_ostream>(
      descriptor, /*shouldClose=*/temporary != nullptr);
  // What is left in a buffer after an error would end the program.
  stream->SetUnbuffered();
}

void OutputFile::check() {
  if (!stream->has_error())
    return;
  std::error_code error = stream->error();
  stream->clear_error(); // it would end the program
  failToWrite(path, error);
}

void OutputFile::write(const void *bytes, int64_t count) {
  stream->write(static_cast<const char *>(bytes), static_cast<size_t>(count));
  written += count;
  check();
}

void OutputFile::finish() {
  if (!temporary)
    return;
  stream->close();
  check();
  if (std::error_code error = temporary->moveTo(path))
    failToWrite(path, error);
}

// A lock of the folder; where the file system knows none there is none.
void OutputFile::finishTogether(OutputFile &first, OutputFile &second) {
  std::string folder = std::filesystem::path(first.path).parent_path();
  rt::FileDescriptor lock(::open(folder.empty() ? "." : folder.c_str(),
                                 O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock)
    (void)::flock(lock.get(), LOCK_EX);
  first.finish();
  second.finish();
}

namespace {

// What the checkpoint has of adapters, and what is asked for.
void checkAdapters(const rt::Checkpoint &index, const ExportOptions &options,
                   bool folder) {
  if (folder && !index.lora)
    rt::failUsage("-o: '", options.output,
                  "' ends neither with .onnx nor with .safetensors, and the "
                  "checkpoint has no adapters for a folder; --format says "
                  "which it shall be");
  if (folder && options.merge)
    rt::failUsage("--merge: a folder gets the adapters alone; leave it out, or "
                  "name a .safetensors or .onnx file");
  if (options.merge && !index.lora)
    rt::failUsage("--merge: the checkpoint has no adapters; leave it out");
  if (index.lora && !folder && !options.merge)
    rt::failUsage("-o: '", options.output,
                  "' has no place for the checkpoint's adapters: --merge adds "
                  "them to the weights, -o DIR writes them for PEFT");
}

// The output would take its place, and no checkpoint, or nothing to compile
// and export from, be left.
void checkIsNoPart(const std::string &output, const std::string &folder,
                   const rt::Checkpoint &index, const std::string &model) {
  if (!model.empty() && isSameFile(output, model))
    rt::failUsage("-o: '", output,
                  "' is the model that the checkpoint is of; name another");
  std::vector<std::string> names = {rt::kIndexName};
  for (const auto &file : index.files)
    names.push_back(file.name);
  for (const std::string &name : names) {
    if (isSameFile(output, std::filesystem::path(folder) / name))
      rt::failUsage("-o: '", output,
                    "' is a file of the checkpoint itself; name another");
  }
}

void exportCheckpoint(const ExportOptions &options) {
  bool named = options.output != kStandardOutput;
  bool onnx = options.format.empty() ? endsWith(options.output, ".onnx")
                                     : options.format == "onnx";
  bool adapter = named && options.format.empty() && !onnx &&
                 !endsWith(options.output, ".safetensors");
  std::optional<std::string> folder = rt::findCheckpoint(options.checkpoint);
  if (!folder)
    rt::fail(rt::noCheckpointIn(options.checkpoint),
             "; give one, or the folder that --save named");
  rt::CheckpointReader reader(*folder);
  checkAdapters(reader.index(), options, adapter);
  std::string model =
      options.model.empty() ? reader.index().modelPath : options.model;
  checkIsNoPart(options.output, *folder, reader.index(), model);
  reader.verify();
  if (onnx && model.empty())
    rt::fail("the checkpoint '", *folder,
             "' was converted and names no ONNX file: --model FILE says which "
             "one was compiled");
  if (adapter)
    writeAdapter(reader, options.output);
  else if (onnx)
    writeOnnx(reader, model, options.output);
  else
    writeSafeTensors(reader, model, options.output);
  if (!named)
    return;
  std::printf("wrote '%s' from '%s' (step %lld)\n", options.output.c_str(),
              folder->c_str(),
              static_cast<long long>(reader.index().state.step));
  if (std::fflush(stdout) != 0)
    rt::fail("cannot write to standard output: ", rt::systemError());
}

} // namespace

int runExport(const ExportOptions &options) {
  rt::setProgramName("shardonnx");
  try {
    exportCheckpoint(options);
    return kExitDone;
  } catch (const rt::Error &e) {
    rt::printError(e.what());
    return e.exitCode();
  } catch (const std::exception &e) { // out of memory
    rt::printError(rt::describe(e));
    return kExitInput;
  }
}

} // namespace shardonnx
