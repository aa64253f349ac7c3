// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loss scales, skipped steps, clipping by value, and runs whose gradients are
// not finite.

#include "runtime/TableRuns.h"
#include <cmath>

using namespace shardonnx::test;

namespace {

class Numerics : public Runs {
protected:
  // Weights that make every prediction of one token NaN.
  void spoil() {
    weights.c[tableTokens()[0]] = NAN;
    writeTable(weights, folder.path);
  }
  std::vector<Json> log() { return readLog(folder / "log.jsonl"); }
};

// A float16 program's start: the scale comes down until gradients fit, and the
// steps until then change nothing.
TEST_F(Numerics, OverflowsAreSkippedAndTheScaleComesDown) {
  for (int ranks : {1, 3}) {
    Finished f = Process(command("table_f32",
                                 {"--loss-scale", "dynamic", "--steps", "20",
                                  "--nproc", std::to_string(ranks),
                                  "--accumulate", std::to_string(12 / ranks),
                                  "--log", folder / "log.jsonl"}),
                         folder, {{"TABLE_GRADIENT_LIMIT", "30"}})
                     .wait();
    ASSERT_EQ(f.code, 0) << f.err;
    std::vector<Json> lines = log();
    ASSERT_EQ(lines.size(), 20u);
    int skipped = 0;
    while (skipped < 20 && lines[skipped].contains("skipped"))
      ++skipped;
    ASSERT_GT(skipped, 1);
    ASSERT_LT(skipped, 12);
    std::vector<TableStep> reference =
        trainTable(weights, tableTokens(), 24, 20, 0.01, false, false, skipped);
    double scale = 65536;
    for (int s = 0; s < 20; ++s) {
      EXPECT_EQ(lines[s]["loss_scale"], scale);
      EXPECT_NEAR(lines[s]["loss"].get<double>() / reference[s].loss, 1, 1e-4);
      EXPECT_EQ(lines[s].contains("skipped"), s < skipped);
      EXPECT_EQ(lines[s]["grad_norm"].is_null(), s < skipped);
      if (s < skipped)
        scale /= 2;
      else
        EXPECT_NEAR(lines[s]["grad_norm"].get<double>() / reference[s].gradNorm,
                    1, 1e-3);
    }
    EXPECT_NE(f.out.find(std::to_string(skipped) + " steps skipped"),
              std::string::npos)
        << f.out;
  }
}

TEST_F(Numerics, AFixedScaleChangesNothing) {
  std::vector<TableStep> reference =
      trainTable(weights, tableTokens(), 24, 20, 0.01, false);
  expectReference("table_f32", 2, reference, {"--loss-scale", "1024"});
  for (const Json &line : log())
    EXPECT_EQ(line["loss_scale"], 1024);
}

TEST_F(Numerics, ElementsOfGradientsAreClipped) {
  std::vector<TableStep> reference =
      trainTable(weights, tableTokens(), 24, 20, 0.01, false, false, 0, 0.001);
  std::vector<TableStep> other =
      trainTable(weights, tableTokens(), 24, 20, 0.01, false);
  ASSERT_GT(std::fabs(reference[19].loss / other[19].loss - 1), 1e-3);
  for (int ranks : {1, 2})
    expectReference("table_f32", ranks, reference,
                    {"--clip-grad-value", "0.001"});
  expectReference("table_f32", 1, reference,
                  {"--clip-grad-value", "0.001", "--loss-scale", "64"});
}

TEST_F(Numerics, ARunThatIsNotFiniteStopsAndSaysWhere) {
  spoil();
  for (const char *ranks : {"1", "3"}) {
    Finished f = run("table_f32", {"--nproc", ranks, "--steps", "5"});
    EXPECT_EQ(f.code, 1);
    expectOneError(f, "step 1: loss not finite, gradient norm not finite; the "
                      "gradient of 'c.weight' in unit 'c' is not finite in ");
    EXPECT_NE(f.err.find("(NaN) at "), std::string::npos) << f.err;
    EXPECT_NE(f.err.find("on rank "), std::string::npos) << f.err;
    EXPECT_NE(f.err.find("--on-nonfinite=skip"), std::string::npos) << f.err;
  }
}

// A scale that comes down to 1 and is still too large is not to blame.
TEST_F(Numerics, ADynamicScaleEndsWhereItCannotHelp) {
  spoil();
  Finished f =
      run("table_f32", {"--loss-scale", "dynamic", "--steps", "300",
                        "--accumulate", "12", "--log", folder / "log.jsonl"});
  EXPECT_EQ(f.code, 1);
  expectOneError(f, "gradient norm not finite");
  EXPECT_LE(log().back()["loss_scale"], 0.5);
}

TEST_F(Numerics, StepsThatAreNotFiniteMayBeSkipped) {
  spoil();
  for (const char *ranks : {"1", "2"}) {
    Finished f =
        run("table_f32", {"--nproc", ranks, "--steps", "5", "--on-nonfinite",
                          "skip", "--log", folder / "log.jsonl"});
    EXPECT_EQ(f.code, 0) << f.err;
    EXPECT_EQ(log().size(), 5u);
    EXPECT_EQ(log()[0]["skipped"], true);
    EXPECT_FALSE(log()[0].contains("loss_scale"));
  }
}

TEST_F(Numerics, MistakesAreTold) {
  for (const char *scale : {"0", "-1", "fast", "inf"}) {
    Finished f = run("table_f32", {"--loss-scale", scale});
    EXPECT_EQ(f.code, 2);
    expectOneError(f, "--loss-scale");
  }
  Finished f = run("table_f32", {"--on-nonfinite", "hope"});
  EXPECT_EQ(f.code, 2);
  expectOneError(f, "--on-nonfinite");
}

} // namespace
