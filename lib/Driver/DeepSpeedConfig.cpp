// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// DeepSpeed's configuration: every key becomes an option, is told to belong to
// the executable, is known to mean nothing here, or is refused by name.

#include "shardonnx/Driver/ForeignConfig.h"
#include "shardonnx/runtime/Choices.h"
#include "shardonnx/runtime/Offload.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <map>

namespace shardonnx {
namespace {

using llvm::StringRef;
namespace json = llvm::json;

// Keys that need nothing of ours (docs/migrating.md says why): what DeepSpeed
// decides at run time and the compiler before it, and what it writes.
constexpr StringRef kUnused[] = {"steps_per_print",
                                 "wall_clock_breakdown",
                                 "dump_state",
                                 "memory_breakdown",
                                 "prescale_gradients",
                                 "gradient_predivide_factor",
                                 "sparse_gradients",
                                 "zero_allow_untested_optimizer",
                                 "zero_force_ds_cpu_optimizer",
                                 "disable_allgather",
                                 "comms_logger",
                                 "flops_profiler",
                                 "csv_monitor",
                                 "wandb",
                                 "comet",
                                 "checkpoint",
                                 "data_types",
                                 "aio",
                                 "use_node_local_storage",
                                 "dataloader_drop_last",
                                 "graph_harvesting",
                                 "seq_parallel_communication_data_type"};
constexpr StringRef kUnusedOfZero[] = {
    "allgather_partitions",
    "allgather_bucket_size",
    "overlap_comm",
    "reduce_scatter",
    "reduce_bucket_size",
    "contiguous_gradients",
    "round_robin_gradients",
    "sub_group_size",
    "elastic_checkpoint",
    "load_from_fp32_weights",
    "ignore_unused_parameters",
    "legacy_stage1",
    "stage3_max_live_parameters",
    "stage3_max_reuse_distance",
    "stage3_prefetch_bucket_size",
    "stage3_param_persistence_threshold",
    "stage3_model_persistence_threshold",
    "stage3_module_granularity_threshold",
    "stage3_gather_16bit_weights_on_model_save",
    "stage3_gather_fp16_weights_on_model_save",
    "stage3_use_all_reduce_for_fetch_params",
    "memory_efficient_linear",
    "use_multi_rank_bucket_allreduce",
    "override_module_apply",
    "log_trace_cache_warnings",
    "mics_hierarchical_params_gather"};
constexpr StringRef kUnusedOfFp16[] = {"auto_cast",
                                       "initial_scale_power",
                                       "loss_scale_window",
                                       "hysteresis",
                                       "consecutive_hysteresis",
                                       "min_loss_scale",
                                       "fp16_master_weights_and_grads"};

std::string textOf(const json::Value &value) {
  if (auto string = value.getAsString())
    return string->str();
  std::string text;
  llvm::raw_string_ostream out(text);
  if (value.kind() == json::Value::Number && !value.getAsInteger())
    out << llvm::format("%.15g", *value.getAsNumber());
  else
    out << value;
  return text;
}

// Off, empty, or left to Hugging Face's trainer, which fills "auto" in.
bool isNothing(const json::Value &value) {
  if (value.kind() == json::Value::Null || value.getAsBoolean() == false)
    return true;
  if (auto string = value.getAsString())
    return *string == "auto" || *string == "none";
  if (const json::Object *object = value.getAsObject())
    return object->getBoolean("enabled") == false || object->empty();
  return false;
}

class Mapper {
public:
  explicit Mapper(json::Object file) : file(std::move(file)) {}
  ForeignConfig map();

private:
  using Table = llvm::ArrayRef<StringRef>;
  void refuse(const std::string &key, const std::string &value,
              StringRef instead) {
    if (out.error.empty())
      out.error = ("'" + key + ": " + value + "': " + instead).str();
  }
  void option(StringRef name, const std::string &value) {
    out.options.emplace_back(name.str(), value);
  }
  std::optional<json::Value> take(json::Object &from, StringRef key);
  std::optional<std::string> takeText(json::Object &from, StringRef key);
  json::Object takeObject(json::Object &from, StringRef key);
  bool takeTruth(json::Object &from, const std::string &key);
  void checkRest(json::Object &from, const std::string &where, Table unused,
                 StringRef instead);
  void mapSizes();
  void mapPrecision();
  void mapZero();
  void mapOffload(json::Object &zero);
  void mapOptimizer();
  void mapScheduler();
  void mapOthers();

  json::Object file;
  ForeignConfig out;
  bool clips = false; // the file says at which norm
};

// Null where the file says nothing.
std::optional<json::Value> Mapper::take(json::Object &from, StringRef key) {
  json::Value *found = from.get(key);
  if (!found)
    return std::nullopt;
  json::Value value = std::move(*found);
  from.erase(key);
  if (isNothing(value))
    return std::nullopt;
  return value;
}

std::optional<std::string> Mapper::takeText(json::Object &from, StringRef key) {
  std::optional<json::Value> value = take(from, key);
  return value ? std::optional(textOf(*value)) : std::nullopt;
}

json::Object Mapper::takeObject(json::Object &from, StringRef key) {
  std::optional<json::Value> value = take(from, key);
  if (!value)
    return {};
  if (json::Object *object = value->getAsObject())
    return std::move(*object);
  refuse(key.str(), textOf(*value), "it is an object");
  return {};
}

bool Mapper::takeTruth(json::Object &from, const std::string &key) {
  std::optional<json::Value> value = take(from, key);
  if (value && !value->getAsBoolean())
    refuse(key, textOf(*value), "it is true or false");
  return value.has_value();
}

void Mapper::checkRest(json::Object &from, const std::string &where,
                       Table unused, StringRef instead) {
  std::map<std::string, const json::Value *> sorted;
  for (const auto &[key, value] : from)
    sorted.emplace(StringRef(key).str(), &value);
  for (const auto &[key, value] : sorted) {
    if (llvm::is_contained(unused, StringRef(key)))
      out.unused.push_back(where + key);
    else if (!isNothing(*value))
      refuse(where + key, textOf(*value), instead);
  }
}

void Mapper::mapSizes() {
  if (auto batch = takeText(file, "train_micro_batch_size_per_gpu"))
    option("batch", *batch);
  if (auto steps = takeText(file, "gradient_accumulation_steps");
      steps && *steps != "1")
    out.runtime.push_back("--accumulate " + *steps);
  if (auto all = takeText(file, "train_batch_size"))
    out.notes.push_back("train_batch_size (" + *all +
                        ") is --batch times --accumulate times the ranks");
  if (auto clip = takeText(file, "gradient_clipping")) {
    out.runtime.push_back("--clip-grad-norm " + *clip);
    clips = true;
  }
}

void Mapper::mapPrecision() {
  json::Object bf16 = takeObject(file, "bf16");
  if (bf16.empty())
    bf16 = takeObject(file, "bfloat16");
  json::Object fp16 = takeObject(file, "fp16");
  if (takeTruth(bf16, "enabled"))
    option("param-dtype", spell(SHX_BF16));
  else if (takeTruth(fp16, "enabled"))
    option("param-dtype", spell(SHX_F16));
  if (auto scale = takeText(fp16, "loss_scale"))
    out.runtime.push_back("--loss-scale " +
                          (*scale == "0" ? "dynamic" : *scale));
  constexpr StringRef kInstead = "give --param-dtype and --reduce-dtype";
  checkRest(fp16, "fp16.", kUnusedOfFp16, kInstead);
  checkRest(bf16, "bf16.",
            {"auto_cast", "immediate_grad_update", "check_grad_overflow"},
            kInstead);
  auto type = takeText(file, "communication_data_type");
  if (!type)
    return;
  StringRef known = llvm::StringSwitch<StringRef>(*type)
                        .Case("fp32", spell(SHX_F32))
                        .Cases({"bf16", "bfp16"}, spell(SHX_BF16))
                        .Case("fp16", spell(SHX_F16))
                        .Default("");
  if (known.empty())
    refuse("communication_data_type", *type, "it is fp32, bf16 or fp16");
  else
    option("reduce-dtype", known.str());
}

void Mapper::mapZero() {
  json::Object zero = takeObject(file, "zero_optimization");
  std::string stage = takeText(zero, "stage").value_or("0");
  std::optional<Strategy> strategy = strategyOfZeroStage(stage);
  if (!strategy)
    return refuse("zero_optimization.stage", stage, "it is 0, 1, 2 or 3");
  if (auto shard = takeText(zero, "mics_shard_size"); shard && *shard != "-1") {
    strategy = Strategy::HybridShard;
    out.runtime.push_back("--replicas with the number of ranks over " + *shard +
                          " (mics_shard_size)");
  }
  option("strategy", spell(*strategy));
  if (auto size = takeText(zero, "zero_hpz_partition_size");
      size && *size != "1")
    refuse("zero_optimization.zero_hpz_partition_size", *size,
           "leave it out here; a configuration of ours has "
           "\"reshard_after_forward\" in its \"units\"");
  mapOffload(zero);
  checkRest(zero, "zero_optimization.", kUnusedOfZero,
            "it has no like here; docs/migrating.md has DeepSpeed's options "
            "row by row");
}

void Mapper::mapOffload(json::Object &zero) {
  std::string what, folder;
  for (const char *key : {"offload_optimizer", "offload_param"}) {
    json::Object offload = takeObject(zero, key);
    auto device = takeText(offload, "device");
    if (!device)
      continue;
    what = spell(StringRef(key) == "offload_param" ? Offload::Params
                                                   : Offload::Optimizer);
    if (*device == "nvme")
      folder = takeText(offload, "nvme_path").value_or("DIR");
    else if (*device != "cpu")
      refuse(std::string("zero_optimization.") + key + ".device", *device,
             "it is cpu, nvme or none");
  }
  // What moves parameters moves the optimizer's state too.
  if (!what.empty())
    out.runtime.push_back("--offload=" + what +
                          (folder.empty() ? "" : " --offload-dir " + folder));
}

// DeepSpeed's Adam decays weights as AdamW does, unless it is told not to.
void Mapper::mapOptimizer() {
  json::Object optimizer = takeObject(file, "optimizer");
  auto type = takeText(optimizer, "type");
  json::Object params = takeObject(optimizer, "params");
  if (!type)
    return;
  std::string own;
  if (!params.get("betas"))
    own += " --betas 0.9,0.95";
  if (!params.get("weight_decay"))
    own += " --weight-decay 0.1";
  if (!clips)
    own += " --clip-grad-norm 1";
  if (!own.empty())
    out.notes.push_back("the file leaves out what the executable has values "
                        "of its own for:" +
                        own);
  bool decoupled = true;
  if (json::Value *mode = params.get("adam_w_mode"))
    decoupled = mode->getAsBoolean().value_or(true);
  params.erase("adam_w_mode");
  std::string lower = StringRef(*type).lower();
  if (lower == "adam" && decoupled)
    lower = "adamw";
  if (!parseSpelling<Optimizer>(lower))
    return refuse("optimizer.type", *type, "it is Adam, AdamW or SGD here");
  option("optimizer", lower);
  for (const char *name : {"lr", "eps", "weight_decay", "momentum"})
    if (auto value = takeText(params, name)) {
      std::string dashed = name;
      std::replace(dashed.begin(), dashed.end(), '_', '-');
      out.runtime.push_back("--" + dashed + " " + *value);
    }
  if (auto betas = take(params, "betas")) {
    const json::Array *pair = betas->getAsArray();
    if (pair && pair->size() == 2)
      out.runtime.push_back("--betas " + textOf((*pair)[0]) + "," +
                            textOf((*pair)[1]));
    else
      refuse("optimizer.params.betas", textOf(*betas), "it is two numbers");
  }
  checkRest(params, "optimizer.params.",
            {"torch_adam", "bias_correction", "fp32_optimizer_states"},
            "the optimizers here have no such option");
}

void Mapper::mapScheduler() {
  json::Object scheduler = takeObject(file, "scheduler");
  auto type = takeText(scheduler, "type");
  json::Object params = takeObject(scheduler, "params");
  if (!type)
    return;
  const char *kind = llvm::StringSwitch<const char *>(*type)
                         .Case("WarmupLR", "constant")
                         .Case("WarmupDecayLR", "linear")
                         .Case("WarmupCosineLR", "cosine")
                         .Default(nullptr);
  if (!kind)
    return refuse("scheduler.type", *type,
                  "the executable has --schedule=constant, linear, cosine and "
                  "wsd, with --warmup");
  std::string told = std::string("--schedule ") + kind;
  if (auto steps = takeText(params, "warmup_num_steps"))
    told += " --warmup " + *steps;
  if (auto steps = takeText(params, "total_num_steps"))
    told += " --steps " + *steps;
  if (auto rate = takeText(params, "warmup_max_lr"))
    told += " --lr " + *rate;
  // What the schedules here do otherwise.
  for (const char *name : {"warmup_min_lr", "warmup_min_ratio", "warmup_type"})
    if (auto value = takeText(params, name); value && *value != "linear")
      out.notes.push_back(std::string("scheduler.params.") + name + " (" +
                          *value + ") is not taken: warm-up is linear from 0");
  if (auto ratio = takeText(params, "cos_min_ratio"))
    out.notes.push_back("scheduler.params.cos_min_ratio (" + *ratio +
                        ") is --min-lr: so much of the learning rate");
  out.runtime.push_back(told);
  checkRest(params, "scheduler.params.", {"last_batch_iteration"},
            "the schedules here have no such option");
}

void Mapper::mapOthers() {
  json::Object recompute = takeObject(file, "activation_checkpointing");
  if (takeTruth(recompute, "partition_activations"))
    refuse("activation_checkpointing.partition_activations", "true",
           "leave it out; --recompute bounds what activations take");
  if (takeTruth(recompute, "cpu_checkpointing"))
    refuse("activation_checkpointing.cpu_checkpointing", "true",
           "leave it out, and for GPUs give --recompute=block "
           "--offload=activations");
  if (!recompute.empty())
    out.notes.push_back("activation_checkpointing is --recompute=block, "
                        "selective or budget:BYTES");
  json::Object board = takeObject(file, "tensorboard");
  if (auto folder = takeText(board, "output_path"))
    out.runtime.push_back("--tensorboard " + *folder);
  checkRest(file, "", kUnused,
            "it has no like here; docs/migrating.md has DeepSpeed's options "
            "row by row");
}

ForeignConfig Mapper::map() {
  mapSizes();
  mapPrecision();
  mapZero();
  mapOptimizer();
  mapScheduler();
  mapOthers();
  return std::move(out);
}

} // namespace

std::optional<Strategy> strategyOfZeroStage(const std::string &stage) {
  constexpr Strategy kOfStage[] = {Strategy::NoShard, Strategy::ShardOpt,
                                   Strategy::ShardGradOp, Strategy::FullShard};
  unsigned number = 0;
  if (StringRef(stage).getAsInteger(10, number) ||
      number >= std::size(kOfStage))
    return std::nullopt;
  return kOfStage[number];
}

ForeignConfig readDeepSpeedConfig(const std::string &path) {
  ForeignConfig failed;
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer) {
    failed.unreadable = "cannot be read: " + buffer.getError().message();
    return failed;
  }
  llvm::Expected<json::Value> value = json::parse((*buffer)->getBuffer());
  if (!value) {
    failed.unreadable = "is not JSON: " + llvm::toString(value.takeError());
    return failed;
  }
  json::Object *object = value->getAsObject();
  if (!object) {
    failed.unreadable = "is not a JSON object";
    return failed;
  }
  return Mapper(std::move(*object)).map();
}

} // namespace shardonnx
