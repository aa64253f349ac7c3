// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See FlightLog.h. Every rank issues the same collectives in one order, so that
// the ranks of a run part where one has done what another has not.

#include "FlightLog.h"

#include "shardonnx/Support/InputFile.h"
#include "shardonnx/runtime/ByteSize.h"
#include "shardonnx/runtime/Printable.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <map>
#include <vector>

using namespace mlir;
namespace json = llvm::json;

namespace shardonnx {
namespace {

constexpr StringRef kBegin = "{\n \"flight_record\":";

struct Collective {
  int64_t step = 0, bytes = 0;
  std::string what, unit, state;
  std::optional<double> issued, begun, ended; // seconds before the end
  std::string name() const {
    return unit.empty() ? what : what + " of unit '" + unit + "'";
  }
};

struct Rank {
  int64_t rank = 0, process = 0, step = 0;
  std::string doing;
  std::vector<Collective> collectives;
};

struct Record {
  std::string program, host, ended, cause;
  int64_t worldSize = 0;
  std::vector<Rank> ranks;
};

bool fromJSON(const json::Value &value, Collective &c, json::Path path) {
  json::ObjectMapper map(value, path);
  std::optional<std::string> unit;
  if (!map || !map.map("step", c.step) || !map.map("collective", c.what) ||
      !map.map("unit", unit) || !map.map("bytes", c.bytes) ||
      !map.map("state", c.state) || !map.map("issued_s", c.issued) ||
      !map.map("begun_s", c.begun) || !map.map("ended_s", c.ended))
    return false;
  c.unit = unit.value_or("");
  return true;
}

bool fromJSON(const json::Value &value, Rank &rank, json::Path path) {
  json::ObjectMapper map(value, path);
  return map && map.map("rank", rank.rank) &&
         map.map("process", rank.process) && map.map("step", rank.step) &&
         map.map("doing", rank.doing) &&
         map.map("collectives", rank.collectives);
}

bool fromJSON(const json::Value &value, Record &record, json::Path path) {
  json::ObjectMapper map(value, path);
  return map && map.map("program", record.program) &&
         map.map("host", record.host) && map.map("ended", record.ended) &&
         map.map("cause", record.cause) &&
         map.map("world_size", record.worldSize) &&
         map.map("ranks", record.ranks);
}

// The first collective that is done on some ranks and not on others: of equal
// ones of a step, the last.
void printParting(const Record &record, raw_ostream &out) {
  using Key = std::pair<int64_t, std::string>;
  std::map<Key, std::map<int64_t, std::string>> states;
  std::vector<Key> order;
  for (const Rank &rank : record.ranks)
    for (const Collective &c : rank.collectives) {
      Key key{c.step, c.name()};
      if (states.find(key) == states.end())
        order.push_back(key);
      states[key][rank.rank] = c.state;
    }
  for (const Key &key : order) {
    std::map<std::string, std::vector<int64_t>> ranks; // by state
    for (const Rank &rank : record.ranks) {
      auto at = states[key].find(rank.rank);
      bool known = at != states[key].end();
      // It has given way to later ones, or it was never issued.
      bool earlier = !known && !rank.collectives.empty() &&
                     rank.collectives.front().step > key.first;
      if (!earlier)
        ranks[known ? at->second : "not issued"].push_back(rank.rank);
    }
    if (ranks.size() < 2 || ranks.count("done") == ranks.size())
      continue;
    out << "\nthe ranks part at the " << key.second << ", in step " << key.first
        << ':';
    for (auto &[state, list] : ranks) {
      out << (state == ranks.begin()->first ? " " : "; ") << state
          << " on rank";
      for (int64_t rank : list)
        out << ' ' << rank;
    }
    out << '\n';
    return;
  }
}

std::string secondsText(std::optional<double> seconds) {
  if (!seconds)
    return "-";
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.3f", *seconds);
  return text;
}

void printRank(const Rank &rank, raw_ostream &out) {
  out << "\nrank " << rank.rank << " (process " << rank.process
      << "): " << rank.doing << '\n';
  out << "  step      issued       begun       ended      bytes  state    "
         "collective\n";
  for (const Collective &c : rank.collectives)
    out << llvm::format("  %4lld", static_cast<long long>(c.step))
        << llvm::right_justify(secondsText(c.issued), 12)
        << llvm::right_justify(secondsText(c.begun), 12)
        << llvm::right_justify(secondsText(c.ended), 12)
        << llvm::right_justify(formatBytes(c.bytes), 11) << "  "
        << llvm::left_justify(c.state, 7) << "  " << c.name() << '\n';
}

} // namespace

bool isFlightRecord(StringRef path) {
  InputBytes file = readInputSlice(path, kBegin.size(), /*offset=*/0);
  return file && (*file)->getBuffer() == kBegin;
}

LogicalResult printFlightRecord(const std::string &path, bool json,
                                raw_ostream &out, Diagnostics &diagnostics) {
  InputBytes buffer = readInputFile(path);
  if (!buffer)
    return diagnostics.error(
        "'" + path + "' cannot be read: " + buffer.getError().message());
  llvm::Expected<Record> record =
      json::parse<Record>((*buffer)->getBuffer(), "the record");
  if (!record) {
    llvm::consumeError(record.takeError());
    return diagnostics.error("'" + path +
                             "' is a damaged flight record; give "
                             "one that a training executable wrote whole");
  }
  if (json) {
    out << (*buffer)->getBuffer();
    return success();
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "flight record of " << record->program << ", "
         << record->ranks.size() << " of " << record->worldSize << " ranks, on "
         << record->host << ", ended " << record->ended
         << "\nwhy: " << record->cause
         << "\ntimes are seconds before the end\n";
  printParting(*record, stream);
  for (const Rank &rank : record->ranks)
    printRank(rank, stream);
  out << printable(text, /*keepLines=*/true);
  return success();
}

} // namespace shardonnx
