// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// shardonnx export: the weights of a checkpoint as other programs read them.

#include "Export.h"

#include "../../runtime/checkpoint/Folder.h"
#include "../../runtime/support/Error.h"

#include <cstdio>
#include <filesystem>

namespace shardonnx {

std::vector<float> readParameter(rt::CheckpointReader &reader,
                                 const rt::CheckpointReader::Place &place) {
  const Manifest::Param &param = *place.param;
  std::vector<float> values(static_cast<size_t>(param.elements()));
  reader.read(place.unit,
              param.trainable ? rt::StateArray::Master : rt::StateArray::Frozen,
              param.offset, param.elements(), values.data());
  return values;
}

OutputFile::OutputFile(std::string to)
    : path(std::move(to)), temporary(path + ".partial"),
      stream(temporary, std::ios::binary | std::ios::trunc) {
  if (!stream)
    rt::fail("cannot write '", temporary, "': ", rt::systemError(),
             "; -o needs a folder that can be written");
}

OutputFile::~OutputFile() {
  std::error_code error;
  if (!finished)
    std::filesystem::remove(temporary, error);
}

void OutputFile::write(const void *bytes, int64_t count) {
  stream.write(static_cast<const char *>(bytes), count);
  written += count;
  if (!stream)
    rt::fail("cannot write '", temporary, "': ", rt::systemError());
}

void OutputFile::finish() {
  stream.close();
  std::error_code error;
  if (stream)
    std::filesystem::rename(temporary, path, error);
  if (!stream || error)
    rt::fail("cannot write '", path,
             "': ", error ? error.message() : rt::systemError());
  finished = true;
}

namespace {

bool endsWith(const std::string &text, const std::string &end) {
  return text.size() >= end.size() &&
         text.compare(text.size() - end.size(), end.size(), end) == 0;
}

void exportCheckpoint(const ExportOptions &options) {
  bool onnx = endsWith(options.output, ".onnx");
  if (!onnx && !endsWith(options.output, ".safetensors"))
    rt::failUsage("-o: '", options.output,
                  "' ends neither with .onnx nor with .safetensors");
  std::optional<std::string> folder = rt::findCheckpoint(options.checkpoint);
  if (!folder)
    rt::fail("there is no checkpoint in '", options.checkpoint,
             "'; give one, or the folder that --save named");
  rt::CheckpointReader reader(*folder);
  reader.verify();
  std::string model =
      options.model.empty() ? reader.index().modelPath : options.model;
  if (onnx)
    writeOnnx(reader, model, options.output);
  else
    writeSafeTensors(reader, options.output);
  std::printf("wrote '%s' from '%s' (step %lld)\n", options.output.c_str(),
              folder->c_str(),
              static_cast<long long>(reader.index().state.step));
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
    rt::printError(e.what());
    return kExitInput;
  }
}

} // namespace shardonnx
