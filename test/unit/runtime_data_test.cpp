// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Data files: what they give, and what is said about the bad ones.

#include "../../runtime/data/DataSource.h"
#include "../../runtime/support/Error.h"
#include "runtime/TestFiles.h"
#include <gtest/gtest.h>
#include <zlib.h>

using namespace shardonnx;
using namespace shardonnx::rt;
using namespace shardonnx::test;

namespace {

using Kind = Manifest::InputKind;

Manifest tokenModel(int64_t seq = 4, int64_t vocab = 100) {
  Manifest m;
  m.batch = 2;
  m.seq = seq;
  m.inputs = {{"input_ids", Kind::Tokens, SHX_I64, {2, seq}, vocab},
              {"labels", Kind::Labels, SHX_I64, {2, seq}, vocab},
              {"position_ids", Kind::PositionIds, SHX_I64, {2, seq}, 0},
              {"attention_mask", Kind::AttentionMask, SHX_I1, {2, seq}, 0}};
  m.loss.input = "labels";
  return m;
}

std::vector<int64_t> row(DataSource &data, int64_t sample, size_t input) {
  std::vector<int64_t> values(4);
  data.read(sample, input, values.data());
  return values;
}

std::string errorOf(const std::string &path, const Manifest &m,
                    std::optional<std::string> type = {}) {
  try {
    std::unique_ptr<DataSource> data = openData({path}, type, m);
    std::vector<int64_t> to(64);
    for (int64_t s = 0; s < data->samples(); ++s)
      for (size_t i = 0; i < m.inputs.size(); ++i)
        data->read(s, i, to.data());
  } catch (const Error &e) {
    return e.what();
  }
  return "";
}

#define EXPECT_SAYS(message, part)                                             \
  EXPECT_NE((message).find(part), std::string::npos) << (message)

std::vector<uint16_t> counting(uint16_t count) {
  std::vector<uint16_t> tokens;
  for (uint16_t i = 0; i < count; ++i)
    tokens.push_back(i);
  return tokens;
}

TEST(TokenFile, SamplesOverlapByOneToken) {
  Folder folder;
  Manifest m = tokenModel();
  auto data = openData({folder.write("t.bin", bytesOf(counting(13)))}, {}, m);
  EXPECT_EQ(data->samples(), 3); // floor((13 - 1) / 4)
  EXPECT_EQ(row(*data, 1, 0), (std::vector<int64_t>{4, 5, 6, 7}));
  EXPECT_EQ(row(*data, 1, 1), (std::vector<int64_t>{5, 6, 7, 8}));
  EXPECT_EQ(row(*data, 2, 2), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(data->countLabels(0), 4);
}

TEST(TokenFile, GraphsThatShiftGetUnshiftedLabels) {
  Folder folder;
  Manifest m = tokenModel();
  m.inputs[1].kind = Kind::ShiftedLabels;
  m.loss.shift = 1;
  auto data = openData({folder.write("t.bin", bytesOf(counting(13)))}, {}, m);
  EXPECT_EQ(row(*data, 1, 1), row(*data, 1, 0));
  EXPECT_EQ(data->countLabels(0), 3);
}

// Token 3 ends a document: after it positions restart, and what it would
// predict is not learned.
TEST(TokenFile, SeparatesDocuments) {
  Folder folder;
  Manifest m = tokenModel();
  m.documentSeparator = 3;
  m.inputs.push_back({"first_keys", Kind::FirstKeys, SHX_I64, {2, 4}, 0});
  std::string bytes = bytesOf(std::vector<uint16_t>{3, 3, 5, 6, 7, 8, 3, 9, 9});
  auto data = openData({folder.write("t.bin", bytes)}, {}, m);
  EXPECT_EQ(row(*data, 0, 4), (std::vector<int64_t>{0, 1, 2, 2}));
  EXPECT_EQ(row(*data, 0, 2), (std::vector<int64_t>{0, 0, 0, 1}));
  EXPECT_EQ(row(*data, 0, 1), (std::vector<int64_t>{-100, -100, 6, 7}));
  EXPECT_EQ(data->countLabels(0), 2);
  EXPECT_EQ(row(*data, 1, 4), (std::vector<int64_t>{0, 0, 0, 3}));
  EXPECT_EQ(row(*data, 1, 1), (std::vector<int64_t>{8, 3, -100, 9}));
  m.inputs[1].kind = Kind::ShiftedLabels;
  m.loss.shift = 1;
  data = openData({folder / "t.bin"}, {}, m);
  EXPECT_EQ(row(*data, 1, 1), (std::vector<int64_t>{7, 8, 3, -100}));
  EXPECT_EQ(data->countLabels(1), 2);
}

// Padding that the loss of the graph leaves out is a token like any other.
TEST(TokenFile, AnIgnoredTokenIsNoLabel) {
  Folder folder;
  Manifest m = tokenModel();
  m.inputs[1].ignoredLabel = 6;
  auto data = openData({folder.write("t.bin", bytesOf(counting(13)))}, {}, m);
  EXPECT_EQ(data->countLabels(0), 4);
  EXPECT_EQ(data->countLabels(1), 3); // 5, 6, 7, 8
  m.inputs[1].limit = 6;
  EXPECT_SAYS(errorOf(folder / "t.bin", m), "has token 7 at position 7");
}

TEST(TokenFile, RecognisesLlmcsHeader) {
  Folder folder;
  Manifest m = tokenModel();
  std::vector<int32_t> header(256);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = 13;
  std::string bytes = bytesOf(header) + bytesOf(counting(13));
  auto data = openData({folder.write("t.bin", bytes)}, {}, m);
  EXPECT_EQ(row(*data, 2, 0), (std::vector<int64_t>{8, 9, 10, 11}));
  bytes.resize(bytes.size() - 2);
  EXPECT_SAYS(errorOf(folder.write("s.bin", bytes), m), "announces 13 tokens");
  EXPECT_SAYS(errorOf(folder / "t.bin", m, "u32"), "says u16");
}

// 13 tokens are 3 samples of 4, 9 are 2: the fourth sample is the second
// file's first.
TEST(SeveralFiles, ComeOneAfterTheOther) {
  Folder folder;
  Manifest m = tokenModel();
  folder.write("s2.bin", bytesOf(counting(9)));
  folder.write("s1.bin", bytesOf(counting(13)));
  for (const std::vector<std::string> &words :
       {std::vector<std::string>{folder / "s1.bin", folder / "s2.bin"},
        std::vector<std::string>{folder / "s*.bin"}}) {
    auto data = openData(words, {}, m);
    EXPECT_EQ(data->samples(), 5);
    EXPECT_EQ(row(*data, 2, 0), (std::vector<int64_t>{8, 9, 10, 11}));
    EXPECT_EQ(row(*data, 3, 0), (std::vector<int64_t>{0, 1, 2, 3}));
    EXPECT_EQ(row(*data, 4, 1), (std::vector<int64_t>{5, 6, 7, 8}));
    EXPECT_EQ(data->countLabels(4), 4);
  }
  // A file may have such a name.
  folder.write("s[1].bin", bytesOf(counting(5)));
  EXPECT_EQ(openData({folder / "s[1].bin"}, {}, m)->samples(), 1);
  EXPECT_SAYS(errorOf(folder / "t*.bin", m), "no file matches");
}

TEST(TokenFile, ReadsU32) {
  Folder folder;
  Manifest m = tokenModel(4, 1 << 20);
  std::string bytes =
      bytesOf(std::vector<uint32_t>{70000, 70001, 70002, 70003, 70004});
  auto data = openData({folder.write("t.bin", bytes)}, "u32", m);
  EXPECT_EQ(row(*data, 0, 1),
            (std::vector<int64_t>{70001, 70002, 70003, 70004}));
}

// A file does not say how wide its tokens are: of the wrong width it would be
// trained on, or blamed for its vocabulary.
TEST(TokenFile, TheOtherWidthIsNoticed) {
  Folder folder;
  std::vector<uint16_t> narrow;
  std::vector<uint32_t> wide;
  for (uint32_t i = 0; i < 200; ++i) {
    wide.push_back(i * 31 % 100);
    narrow.push_back(static_cast<uint16_t>(i * 31 % 100));
  }
  std::string narrowFile = folder.write("n.bin", bytesOf(narrow));
  std::string wideFile = folder.write("w.bin", bytesOf(wide));
  Manifest m = tokenModel();
  EXPECT_EQ(errorOf(narrowFile, m), "");
  EXPECT_EQ(errorOf(wideFile, m, "u32"), "");
  EXPECT_SAYS(errorOf(wideFile, m),
              "'" + wideFile +
                  "' looks like 32-bit tokens (of its first 400 16-bit words "
                  "every second one is 0 or nearly so): give "
                  "--data-dtype=u32, or --data-dtype=u16 if it is not so");
  EXPECT_EQ(errorOf(wideFile, m, "u16"), ""); // as asked for
  EXPECT_SAYS(errorOf(narrowFile, m, "u32"), "looks like 16-bit tokens");
  // A vocabulary that 16 bits do not hold.
  Manifest large = tokenModel(4, 128256);
  for (uint32_t &id : wide)
    id = id * 1283;
  EXPECT_SAYS(errorOf(folder.write("w.bin", bytesOf(wide)), large),
              "looks like 32-bit tokens");
  EXPECT_EQ(errorOf(wideFile, large, "u32"), "");
  EXPECT_EQ(errorOf(narrowFile, large), "");
}

TEST(TokenFile, NamesWhatIsWrong) {
  Folder folder;
  Manifest m = tokenModel();
  std::string tokens = bytesOf(counting(13));
  EXPECT_SAYS(errorOf(folder / "none.bin", m), "cannot open");
  EXPECT_SAYS(errorOf(folder.write("odd.bin", tokens + "x"), m), "truncated");
  EXPECT_SAYS(errorOf(folder.write("s.bin", tokens.substr(0, 8)), m),
              "too short: it has 4 tokens, one sample takes 5");
  EXPECT_SAYS(errorOf(folder.write("e.bin", ""), m), "too short");
  m.inputs[0].limit = 10;
  EXPECT_SAYS(errorOf(folder.write("v.bin", tokens), m),
              "token 10 at position 10, outside the vocabulary of 10");
  EXPECT_SAYS(errorOf(folder.write("t.txt", tokens), m), ".safetensors");
  m.inputs[2] = {"places", Kind::Tokens, SHX_I64, {2, 4}, 4};
  EXPECT_SAYS(errorOf(folder / "v.bin", m),
              "two of the graph's inputs index tables, 'input_ids' and "
              "'places'");
  m.inputs[0].kind = Kind::Data;
  EXPECT_SAYS(errorOf(folder / "v.bin", m), "holds tokens only");
  EXPECT_SAYS(errorOf(folder.path + "/", m), "");
}

// ---- Array files

std::string safeTensors(const std::string &header, const std::string &data) {
  uint64_t length = header.size();
  return std::string(reinterpret_cast<char *>(&length), 8) + header + data;
}

std::string arrayPair() {
  return bytesOf(std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8}) +
         bytesOf(std::vector<int64_t>{2, 3, 4, -100, -100, 7, 8, 9});
}
const char *kPairHeader =
    R"({"__metadata__":{"a":"b"},)"
    R"("input_ids":{"dtype":"I32","shape":[2,4],"data_offsets":[0,32]},)"
    R"("labels":{"dtype":"I64","shape":[2,4],"data_offsets":[32,96]}})";

TEST(SafeTensors, GivesRowsAndCountsLabels) {
  Folder folder;
  Manifest m = tokenModel();
  auto data = openData(
      {folder.write("d.safetensors", safeTensors(kPairHeader, arrayPair()))},
      {}, m);
  EXPECT_EQ(data->samples(), 2);
  EXPECT_EQ(row(*data, 1, 0), (std::vector<int64_t>{5, 6, 7, 8}));
  EXPECT_EQ(row(*data, 0, 1), (std::vector<int64_t>{2, 3, 4, -100}));
  EXPECT_EQ(data->countLabels(0), 3);
  m.loss.shift = 1;
  EXPECT_EQ(data->countLabels(0), 2);
  EXPECT_EQ(data->countLabels(1), 3); // the first is ignored anyway
}

// A file that says so is shifted unasked; the command line wins. Documents are
// told apart by positions that restart, whatever token ends them.
TEST(SafeTensors, SaysItsLabelsAreUnshiftedAndWhereDocumentsBegin) {
  Folder folder;
  Manifest m = tokenModel();
  const char *header =
      R"({"__metadata__":{"labels":"unshifted"},)"
      R"("input_ids":{"dtype":"I32","shape":[2,4],"data_offsets":[0,32]},)"
      R"("labels":{"dtype":"I64","shape":[2,4],"data_offsets":[32,96]},)"
      R"("position_ids":{"dtype":"I32","shape":[2,4],"data_offsets":[96,128]}})";
  std::string bytes = bytesOf(std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8}) +
                      bytesOf(std::vector<int64_t>{-100, 2, 3, 4, 5, 6, 7, 8}) +
                      bytesOf(std::vector<int32_t>{0, 1, 0, 1, 2, 3, 4, 0});
  std::string path = folder.write("d.safetensors", safeTensors(header, bytes));
  auto data = openData({path}, {}, m);
  EXPECT_EQ(row(*data, 0, 1), (std::vector<int64_t>{2, 3, 4, -100}));
  EXPECT_NE(data->describeLabels().find("the file says"), std::string::npos);
  m.documentSeparator = 1;
  data = openData({path}, {}, m);
  EXPECT_EQ(row(*data, 0, 1), (std::vector<int64_t>{2, -100, 4, -100}));
  EXPECT_EQ(row(*data, 1, 1), (std::vector<int64_t>{6, 7, -100, -100}));
  EXPECT_TRUE(data->unusedArrays().empty());
  m.inputs.push_back({"first_keys", Kind::FirstKeys, SHX_I64, {2, 4}, 0});
  data = openData({path}, {}, m);
  EXPECT_EQ(row(*data, 0, 4), (std::vector<int64_t>{0, 0, 2, 2}));
  EXPECT_EQ(row(*data, 1, 4), (std::vector<int64_t>{0, 0, 0, 3}));
  data = openData({path}, {}, m, /*shiftLabels=*/false);
  EXPECT_EQ(row(*data, 0, 1), (std::vector<int64_t>{-100, 2, 3, 4}));
}

// Token 3 ends a document: what is behind it is no label of its own.
TEST(SafeTensors, ShiftsLabelsWithinASample) {
  Folder folder;
  Manifest m = tokenModel();
  std::string bytes = bytesOf(std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8}) +
                      bytesOf(std::vector<int64_t>{-100, 2, 3, 4, 5, 6, 7, 8});
  std::string path =
      folder.write("d.safetensors", safeTensors(kPairHeader, bytes));
  EXPECT_SAYS(errorOf(path, m), "give --shift-labels, or --no-shift-labels");
  auto data = openData({path}, {}, m, /*shiftLabels=*/true);
  EXPECT_EQ(row(*data, 0, 1), (std::vector<int64_t>{2, 3, 4, -100}));
  EXPECT_EQ(row(*data, 1, 1), (std::vector<int64_t>{6, 7, 8, -100}));
  EXPECT_EQ(data->countLabels(0), 3);
  m.documentSeparator = 3;
  EXPECT_EQ(row(*data, 0, 1), (std::vector<int64_t>{2, 3, -100, -100}));
  EXPECT_EQ(data->countLabels(0), 2);
  data = openData({path}, {}, m, /*shiftLabels=*/false);
  EXPECT_EQ(row(*data, 1, 1), (std::vector<int64_t>{5, 6, 7, 8}));
  m.inputs[1].kind = Kind::ShiftedLabels; // the graph's own
  EXPECT_EQ(errorOf(path, m), "");
}

TEST(SafeTensors, NamesWhatIsWrong) {
  Folder folder;
  Manifest m = tokenModel();
  auto say = [&](const std::string &bytes) {
    return errorOf(folder.write("d.safetensors", bytes), m);
  };
  std::string whole = safeTensors(kPairHeader, arrayPair());
  EXPECT_SAYS(say(whole.substr(0, whole.size() - 1)),
              "truncated: array 'labels'");
  EXPECT_SAYS(say(whole.substr(0, 40)), "truncated");
  EXPECT_SAYS(say("12"), "truncated");
  EXPECT_SAYS(say(std::string(16, '\xff')), "no .safetensors file");
  EXPECT_SAYS(say(safeTensors("{\"a\":", "")), "no .safetensors file");
  EXPECT_SAYS(say(safeTensors("{}", "")), "no array 'input_ids'");
  auto one = [](const char *entry) {
    return safeTensors(std::string(R"({"input_ids":{)") + entry + "}}",
                       arrayPair());
  };
  EXPECT_SAYS(say(one(R"("dtype":"I32","shape":[2,5],"data_offsets":[0,40])")),
              "has shape [2, 5], the graph wants [2, 4]");
  EXPECT_SAYS(say(one(R"("dtype":"I32","shape":[2,4],"data_offsets":[0,40])")),
              "another size than its shape says");
  EXPECT_SAYS(say(one(R"("dtype":"F32","shape":[2,4],"data_offsets":[0,32])")),
              "is f32, the graph wants integers");
  for (const char *entry :
       {R"("dtype":"I32","shape":[-2,-4],"data_offsets":[0,32])",
        R"("dtype":"I32","shape":[2,4.5],"data_offsets":[0,32])",
        R"("dtype":"I32","shape":[2,4],"data_offsets":[0])",
        R"("dtype":"I32","shape":null,"data_offsets":[0,32])",
        R"("dtype":4,"shape":[2,4],"data_offsets":[0,32])"})
    EXPECT_SAYS(say(one(entry)),
                "is damaged: array 'input_ids' does not say its dtype, shape "
                "and place");
  EXPECT_SAYS(say(safeTensors(R"({"input_ids":null})", "")),
              "does not say its dtype, shape and place");
  EXPECT_SAYS(say(one(R"("dtype":"I32","shape":[2,4],"data_offsets":[32,0])")),
              "ends before it begins");
  EXPECT_SAYS(
      say(one(
          R"("dtype":"I32","shape":[4294967296,4294967296],"data_offsets":[0,0])")),
      "another size");
  auto two = [](const char *second) {
    return safeTensors(
        R"({"a":{"dtype":"I32","shape":[2,4],"data_offsets":[32,64]},)" +
            std::string(second) + "}",
        arrayPair());
  };
  EXPECT_SAYS(
      say(two(R"("b":{"dtype":"I32","shape":[1],"data_offsets":[30,34]})")),
      "is damaged: arrays 'b' and 'a' overlap");
  EXPECT_SAYS(
      say(two(R"("a":{"dtype":"I32","shape":[2,4],"data_offsets":[0,32]})")),
      "is damaged: it has array 'a' twice");
  m.inputs[0].limit = 8;
  EXPECT_SAYS(say(whole), "has 8 in sample 1 at position 3, outside 0…7");
}

// What an input's type does not hold would wrap.
TEST(SafeTensors, IntegersThatTheGraphDoesNotHold) {
  Folder folder;
  Manifest m;
  m.batch = 2;
  m.inputs = {{"x", Kind::Data, SHX_I32, {2, 2}, 0}};
  m.loss.denominator = Manifest::Denominator::Batches;
  auto say = [&](const char *type, std::vector<int64_t> values) {
    std::string header = std::string(R"({"x":{"dtype":")") + type +
                         R"(","shape":[2,2],"data_offsets":[0,32]}})";
    return errorOf(
        folder.write("i.safetensors", safeTensors(header, bytesOf(values))), m);
  };
  EXPECT_EQ(say("I64", {-(int64_t(1) << 31), (int64_t(1) << 31) - 1, 0, 1}),
            "");
  EXPECT_SAYS(say("I64", {0, 1, 2, (int64_t(1) << 32) + 5}), "array 'x' of '");
  EXPECT_SAYS(say("I64", {0, 1, 2, (int64_t(1) << 32) + 5}),
              "has 4294967301 in sample 1 at position 1, which the graph's ");
  m.inputs[0].dtype = SHX_I64;
  EXPECT_SAYS(say("U64", {-1, 1, 2, 3}),
              "has 18446744073709551615 in sample 0 at position 0, which");
  m.inputs[0].dtype = SHX_I1; // any number is a truth
  EXPECT_EQ(say("I64", {0, 1, 2, (int64_t(1) << 32) + 5}), "");
}

// Before the first step each sample is looked at, but not its floats.
TEST(SafeTensors, CheckedSamplesAreThoseThatWouldFail) {
  Folder folder;
  Manifest m;
  m.batch = 2;
  m.inputs = {{"ids", Kind::Tokens, SHX_I64, {2, 2}, 3},
              {"x", Kind::Data, SHX_F32, {2, 1}, 0}};
  m.loss.denominator = Manifest::Denominator::Batches;
  std::string bytes = bytesOf(std::vector<int64_t>{0, 1, 2, 3}) +
                      bytesOf(std::vector<float>{1, NAN});
  std::string path = folder.write(
      "c.safetensors",
      safeTensors(
          R"({"ids":{"dtype":"I64","shape":[2,2],"data_offsets":[0,32]},)"
          R"("x":{"dtype":"F32","shape":[2,1],"data_offsets":[32,40]}})",
          bytes));
  auto data = openData({path}, {}, m);
  EXPECT_EQ(data->checkedBytes(0), 16);
  checkSample(*data, m, 0);
  EXPECT_THROW(checkSample(*data, m, 1), Error);
}

// A zip archive of one .npy file, listed `entries` times.
std::string npz(const std::string &npy, bool deflated, size_t entries = 1) {
  std::string packed = npy;
  if (deflated) {
    packed.resize(npy.size() + 100);
    z_stream z{};
    deflateInit2(&z, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
    z.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(npy.data()));
    z.avail_in = static_cast<uInt>(npy.size());
    z.next_out = reinterpret_cast<Bytef *>(packed.data());
    z.avail_out = static_cast<uInt>(packed.size());
    deflate(&z, Z_FINISH);
    packed.resize(packed.size() - z.avail_out);
    deflateEnd(&z);
  }
  auto u16 = [](size_t x) {
    return bytesOf(std::vector<uint16_t>{static_cast<uint16_t>(x)});
  };
  auto u32 = [](size_t x) {
    return bytesOf(std::vector<uint32_t>{static_cast<uint32_t>(x)});
  };
  std::string name = "input_ids.npy";
  auto *bytes = reinterpret_cast<const Bytef *>(npy.data());
  std::string common = u16(20) + u16(0) + u16(deflated ? 8 : 0) + u32(0) +
                       u32(::crc32_z(0, bytes, npy.size())) +
                       u32(packed.size()) + u32(npy.size()) + u16(name.size()) +
                       u16(0);
  std::string local = u32(0x04034b50) + common + name + packed;
  std::string central = u32(0x02014b50) + u16(20) + common + u16(0) + u16(0) +
                        u16(0) + u32(0) + u32(0) + name;
  std::string directory;
  for (size_t i = 0; i < entries; ++i)
    directory += central;
  return local + directory + u32(0x06054b50) + u16(0) + u16(0) + u16(entries) +
         u16(entries) + u32(directory.size()) + u32(local.size()) + u16(0);
}

std::string npy(const std::string &dictionary, const std::string &data) {
  std::string header = dictionary + "\n";
  return std::string("\x93NUMPY\x01\x00", 8) +
         bytesOf(std::vector<uint16_t>{static_cast<uint16_t>(header.size())}) +
         header + data;
}
const char *kI64 = "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 4)}";

std::string eight() {
  return bytesOf(std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8});
}

Manifest dataModel() {
  Manifest m = tokenModel();
  m.inputs.resize(1);
  m.loss = {LossKind::Mse, Manifest::Denominator::Elements, "", 0, 8};
  return m;
}

TEST(Npz, ReadsStoredAndDeflated) {
  Folder folder;
  Manifest m = dataModel();
  for (bool deflated : {false, true}) {
    auto data = openData(
        {folder.write("d.npz", npz(npy(kI64, eight()), deflated))}, {}, m);
    EXPECT_EQ(data->samples(), 2);
    EXPECT_EQ(row(*data, 1, 0), (std::vector<int64_t>{5, 6, 7, 8}));
    EXPECT_EQ(data->memoryBytes() > 0, deflated);
  }
}

TEST(SafeTensors, TellsWhatNoInputReads) {
  Folder folder;
  Manifest m = dataModel();
  auto data = openData(
      {folder.write("d.safetensors", safeTensors(kPairHeader, arrayPair()))},
      {}, m);
  EXPECT_EQ(data->unusedArrays(), std::vector<std::string>{"labels"});
}

// The compiler folds both to what the executable feeds; the program does not
// read them, so an array that says something else must not be ignored.
TEST(Npz, MasksAndPositionsAreWhatTheProgramWasCompiledFor) {
  Folder folder;
  Manifest m = dataModel();
  auto say = [&](Kind kind, const std::vector<int64_t> &values) {
    m.inputs = {{"input_ids", kind, SHX_I64, {2, 4}, 0}};
    return errorOf(folder.write("d.npz", npz(npy(kI64, bytesOf(values)), true)),
                   m);
  };
  EXPECT_EQ(say(Kind::AttentionMask, {1, 1, 1, 1, 1, 1, 1, 1}), "");
  EXPECT_SAYS(say(Kind::AttentionMask, {1, 1, 1, 1, 1, 1, 0, 1}),
              "has 0 in sample 1 at position 2, the program was compiled for 1 "
              "there: leave the array out");
  EXPECT_EQ(say(Kind::PositionIds, {0, 1, 2, 3, 0, 1, 2, 3}), "");
  EXPECT_SAYS(
      say(Kind::PositionIds, {0, 1, 2, 3, 4, 5, 6, 7}),
      "has 4 in sample 1 at position 0, the program was compiled for 0");
}

// Masks and positions that the program reads, token types, and inputs of narrow
// types.
TEST(Npz, FeedsMasksAndNarrowInputs) {
  Folder folder;
  Manifest m = dataModel();
  m.inputs = {{"input_ids", Kind::ReadMask, SHX_I64, {2, 4}, 0},
              {"other_mask", Kind::ReadMask, SHX_I64, {2, 4}, 0},
              {"token_type_ids", Kind::TokenTypeIds, SHX_I64, {2, 4}, 2},
              {"input_ids", Kind::ReadPositions, SHX_I64, {2, 4}, 4},
              {"position_ids", Kind::ReadPositions, SHX_I64, {2, 4}, 4}};
  std::vector<int64_t> values = {1, 1, 1, 0, 1, 0, 1, 1};
  auto data = openData(
      {folder.write("d.npz", npz(npy(kI64, bytesOf(values)), true))}, {}, m);
  EXPECT_EQ(row(*data, 1, 0), (std::vector<int64_t>{1, 0, 1, 1}));
  EXPECT_EQ(row(*data, 1, 1), (std::vector<int64_t>{1, 1, 1, 1}));
  EXPECT_EQ(row(*data, 1, 2), (std::vector<int64_t>{0, 0, 0, 0}));
  EXPECT_EQ(row(*data, 1, 3), (std::vector<int64_t>{1, 0, 1, 1}));
  EXPECT_EQ(row(*data, 1, 4), (std::vector<int64_t>{0, 1, 2, 3}));
  m.inputs = {{"input_ids", Kind::Data, SHX_BF16, {2, 4}, 0},
              {"input_ids", Kind::Data, SHX_F16, {2, 4}, 0},
              {"input_ids", Kind::Data, SHX_I1, {2, 4}, 0}};
  data = openData(
      {folder.write("d.npz", npz(npy(kI64, bytesOf(values)), true))}, {}, m);
  std::vector<uint16_t> halves(4);
  data->read(1, 0, halves.data());
  EXPECT_EQ(halves, (std::vector<uint16_t>{0x3f80, 0, 0x3f80, 0x3f80}));
  data->read(1, 1, halves.data());
  EXPECT_EQ(halves, (std::vector<uint16_t>{0x3c00, 0, 0x3c00, 0x3c00}));
  std::vector<uint8_t> flags(4);
  data->read(1, 2, flags.data());
  EXPECT_EQ(flags, (std::vector<uint8_t>{1, 0, 1, 1}));
}

TEST(Npz, NamesWhatIsWrong) {
  Folder folder;
  Manifest m = dataModel();
  auto say = [&](const std::string &bytes) {
    return errorOf(folder.write("d.npz", bytes), m);
  };
  std::string whole = npz(npy(kI64, eight()), false);
  EXPECT_EQ(say(whole), "");
  for (size_t cut : {size_t(0), size_t(10), whole.size() / 2, whole.size() - 1})
    EXPECT_SAYS(say(whole.substr(0, cut)), "no readable .npz file");
  EXPECT_SAYS(say(npz(npy(kI64, eight().substr(8)), false)),
              "another size than its shape says");
  EXPECT_SAYS(say(npz("nonsense", true)), "no .npy file");
  EXPECT_SAYS(say(npz(npy(kI64, eight()), true, 2)), "its members overlap");
  EXPECT_SAYS(
      say(npz(npy("{'descr': '<i8', 'fortran_order': True, 'shape': (2, 4)}",
                  eight()),
              false)),
      "' is in Fortran order: save np.ascontiguousarray of it");
  std::string strange = npz(
      npy("{'descr': '>i8', 'fortran_order': False, 'shape': (2, 4)}", eight()),
      false);
  EXPECT_SAYS(say(strange),
              "' has dtype '>i8', which cannot be read: save it as");
  // No fault of an array that nothing wants.
  m.inputs[0].name = "other_ids";
  EXPECT_SAYS(say(strange), "has no array 'other_ids'");
  m = dataModel();
  std::string torn = npz(npy(kI64, eight()), true);
  torn[60] = static_cast<char>(torn[60] ^ 0x55);
  EXPECT_NE(say(torn), "");
  torn = npz(npy(kI64, eight()), false);
  size_t five = torn.find(eight()) + 4 * sizeof(int64_t);
  torn[five] = 4;
  EXPECT_SAYS(say(torn), "'input_ids.npy' is not what its CRC-32 is of");
}

} // namespace
