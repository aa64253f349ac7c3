// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Accelerate's configuration: every key becomes an option, is told to belong
// to the executable, is known to mean nothing here, or is refused by name.

#include "shardonnx/Dialect/NN/IR/UnitPolicy.h"
#include "shardonnx/Driver/ForeignConfig.h"
#include "shardonnx/Support/InputFile.h"
#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/Mesh.h"
#include "shardonnx/runtime/Offload.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLParser.h"

#include <map>
#include <optional>

namespace shardonnx {
namespace {

using llvm::StringLiteral;
using llvm::StringRef;
namespace yaml = llvm::yaml;

constexpr StringLiteral kDeepSpeed = "deepspeed_config";
constexpr StringLiteral kParallelism = "parallelism_config";

// The keys of the file, those of `fsdp_config` and `parallelism_config` beside
// the others, those of `deepspeed_config` behind its name and a dot. A list is
// its items, joined by commas, as Accelerate itself writes lists.
class Entries {
public:
  std::string read(StringRef path);

  std::optional<std::string> take(const std::string &key) {
    auto it = values.find(key);
    if (it == values.end())
      return std::nullopt;
    std::string value = it->second;
    values.erase(it);
    return value;
  }
  const std::map<std::string, std::string> &rest() const { return values; }

private:
  /// Keys get the prefix; the outermost mapping has none.
  void readMapping(yaml::MappingNode &mapping, StringRef prefix);
  std::string text(yaml::Node *node);

  std::map<std::string, std::string> values;
  std::string error;
};

std::string Entries::text(yaml::Node *node) {
  llvm::SmallString<32> storage;
  if (auto *scalar = llvm::dyn_cast_or_null<yaml::ScalarNode>(node))
    return scalar->getValue(storage).str();
  if (auto *block = llvm::dyn_cast_or_null<yaml::BlockScalarNode>(node))
    return block->getValue().str();
  std::string list;
  if (auto *sequence = llvm::dyn_cast_or_null<yaml::SequenceNode>(node)) {
    for (yaml::Node &item : *sequence)
      list += (list.empty() ? "" : ",") + text(&item);
  } else if (auto *mapping = llvm::dyn_cast_or_null<yaml::MappingNode>(node)) {
    for (yaml::KeyValueNode &pair : *mapping) {
      list += (list.empty() ? "" : ",") + text(pair.getKey());
      list += "=" + text(pair.getValue());
    }
  }
  return list;
}

void Entries::readMapping(yaml::MappingNode &mapping, StringRef prefix) {
  bool outermost = prefix.empty();
  for (yaml::KeyValueNode &pair : mapping) {
    std::string key = text(pair.getKey());
    auto *inner = llvm::dyn_cast_or_null<yaml::MappingNode>(pair.getValue());
    if (outermost && inner && key == "fsdp_config") {
      readMapping(*inner, "fsdp_");
      continue;
    }
    if (outermost && inner && key == kParallelism) {
      readMapping(*inner, (kParallelism + "_").str());
      continue;
    }
    if (outermost && inner && key == kDeepSpeed) {
      readMapping(*inner, (kDeepSpeed + ".").str());
      continue;
    }
    // Both spellings are in use inside fsdp_config.
    if (!StringRef(key).starts_with(prefix))
      key.insert(0, prefix.str());
    if (!values.emplace(key, text(pair.getValue())).second && error.empty())
      error = "has '" + key + "' twice";
  }
}

std::string Entries::read(StringRef path) {
  InputBytes buffer = readInputFile(path, /*isText=*/true);
  if (!buffer)
    return "cannot be read: " + buffer.getError().message();
  std::string syntax;
  llvm::SourceMgr sources;
  sources.setDiagHandler(
      [](const llvm::SMDiagnostic &diagnostic, void *context) {
        auto &message = *static_cast<std::string *>(context);
        if (message.empty())
          message = "is not YAML: line " +
                    std::to_string(diagnostic.getLineNo()) + ": " +
                    diagnostic.getMessage().str();
      },
      &syntax);
  yaml::Stream stream((*buffer)->getMemBufferRef(), sources,
                      /*ShowColors=*/false);
  yaml::Node *root = stream.begin()->getRoot();
  auto *mapping = llvm::dyn_cast_or_null<yaml::MappingNode>(root);
  if (mapping)
    readMapping(*mapping, "");
  if (stream.failed())
    return syntax.empty() ? "is not YAML" : syntax;
  if (!mapping)
    return "is not a mapping of keys to values";
  return error;
}

// Keys that need nothing of ours (docs/migrating.md says why): what FSDP does
// at run time and this compiler always does, and the launcher's.
constexpr StringRef kUnused[] = {"fsdp_use_orig_params",
                                 "fsdp_sync_module_states",
                                 "fsdp_limit_all_gathers",
                                 "fsdp_cpu_ram_efficient_loading",
                                 "debug",
                                 "downcast_bf16",
                                 "dynamo_config",
                                 "ipex_config",
                                 "compute_environment",
                                 "same_network",
                                 "main_training_function",
                                 "rdzv_backend",
                                 "machine_rank",
                                 "main_process_ip",
                                 "main_process_port",
                                 "gpu_ids",
                                 "enable_cpu_affinity",
                                 "mpirun_config"};

class Mapper {
public:
  explicit Mapper(Entries &entries) : entries(entries) {}
  ForeignConfig map();

private:
  void refuse(StringRef key, const std::string &value, StringRef instead);
  void option(StringRef name, const std::string &value) {
    out.options.emplace_back(name.str(), value);
  }
  std::optional<bool> truth(const std::string &key);
  std::optional<int64_t> number(const std::string &key);
  void mapKind();
  void mapMesh();
  int64_t meshSize(const char *key);
  void mapStrategy();
  void mapReshard(std::optional<Strategy> &strategy);
  void mapPrecision();
  void mapUnits();
  void mapPrefetch();
  void mapState();
  void mapDeepSpeed();
  void mapLaunch();
  void checkRest();

  Entries &entries;
  ForeignConfig out;
  bool plain = false;      // data parallel, nothing sharded
  bool replicates = false; // groups that each shard
  bool deepSpeed = false;
};

void Mapper::refuse(StringRef key, const std::string &value,
                    StringRef instead) {
  if (out.error.empty())
    out.error = ("'" + key + ": " + value + "': " + instead).str();
}

bool isNothing(StringRef value) {
  return value.empty() || value == "null" || value == "~" ||
         value.equals_insensitive("none") || value == "{}";
}

std::optional<bool> truthOf(StringRef value) {
  return llvm::StringSwitch<std::optional<bool>>(value.lower())
      .Cases({"true", "yes", "on", "1"}, true)
      .Cases({"false", "no", "off", "0"}, false)
      .Default(std::nullopt);
}

std::optional<bool> Mapper::truth(const std::string &key) {
  std::optional<std::string> value = entries.take(key);
  if (!value || isNothing(*value))
    return std::nullopt;
  std::optional<bool> result = truthOf(*value);
  if (!result)
    refuse(key, *value, "it is true or false");
  return result;
}

std::optional<int64_t> Mapper::number(const std::string &key) {
  std::optional<std::string> value = entries.take(key);
  if (!value || isNothing(*value))
    return std::nullopt;
  int64_t result = 0;
  if (StringRef(*value).getAsInteger(10, result) || result < 0 ||
      result > int64_t(1) << 40) {
    refuse(key, *value, "it is a whole number");
    return std::nullopt;
  }
  return result;
}

// FSDP, plain data parallelism, or something else.
void Mapper::mapKind() {
  std::string kind = entries.take("distributed_type").value_or("FSDP");
  plain = kind == "MULTI_GPU" || kind == "MULTI_CPU" || kind == "NO";
  deepSpeed = kind == "DEEPSPEED";
  if (!plain && !deepSpeed && kind != "FSDP")
    refuse("distributed_type", kind,
           "only FSDP, DEEPSPEED, MULTI_GPU, MULTI_CPU and NO have their like "
           "here");
  if (auto version = number("fsdp_version");
      version && *version != 1 && *version != 2)
    refuse("fsdp_version", std::to_string(*version), "it is 1 or 2");
}

// FSDP1's names, which are ours in capitals, and the numbers that older
// versions wrote.
std::optional<Strategy> strategyOf(StringRef value) {
  constexpr Strategy kOfFSDP1[] = {Strategy::FullShard, Strategy::ShardGradOp,
                                   Strategy::NoShard, Strategy::HybridShard,
                                   Strategy::HybridShardZero2};
  size_t number = 0;
  if (!value.getAsInteger(10, number))
    return number >= 1 && number <= std::size(kOfFSDP1)
               ? std::optional(kOfFSDP1[number - 1])
               : std::nullopt;
  if (value.equals_insensitive("_hybrid_shard_zero2"))
    return Strategy::HybridShardZero2;
  std::optional<Strategy> strategy = parseSpelling<Strategy>(value.lower());
  return strategy && llvm::is_contained(kOfFSDP1, *strategy) ? strategy
                                                             : std::nullopt;
}

int64_t Mapper::meshSize(const char *key) {
  std::string name = (kParallelism + "_" + key).str();
  int64_t size = number(name).value_or(1);
  if (size > kMaxRanks)
    refuse(name, std::to_string(size),
           "it is at most " + std::to_string(kMaxRanks));
  return std::max<int64_t>(size, 1);
}

// Both of its kinds of context parallelism are one axis here, which shards
// parameters, too, as it does there.
void Mapper::mapMesh() {
  bool used = truth("use_parallelism_config").value_or(true);
  int64_t replicate = meshSize("dp_replicate_size");
  int64_t shard = meshSize("dp_shard_size"), tensor = meshSize("tp_size");
  int64_t context = meshSize("cp_size"), sequence = meshSize("sp_size");
  for (const char *key :
       {"cp_backend", "cp_comm_strategy", "sp_backend", "sp_seq_length",
        "sp_seq_length_is_variable", "sp_attn_implementation"})
    if (std::string name = (kParallelism + "_" + key).str(); entries.take(name))
      out.unused.push_back(name);
  if (!used || replicate * shard * tensor * context * sequence == 1)
    return;
  if (context > 1 && sequence > 1)
    return refuse("parallelism_config_sp_size", std::to_string(sequence),
                  "parallelism_config_cp_size splits sequences already; leave "
                  "one out");
  Mesh mesh = {{replicate > 1 ? replicate : 0, shard,
                std::max(context, sequence), tensor}};
  option("mesh", mesh.text());
  replicates = replicate > 1 && !plain;
}

void Mapper::mapStrategy() {
  std::optional<Strategy> strategy;
  if (auto value = entries.take("fsdp_sharding_strategy");
      value && !isNothing(*value)) {
    strategy = strategyOf(*value);
    if (!strategy)
      refuse("fsdp_sharding_strategy", *value,
             "it is FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD or "
             "HYBRID_SHARD_ZERO2");
  }
  mapReshard(strategy);
  if (replicates && !(strategy && isHybrid(*strategy)))
    strategy = strategy == Strategy::ShardGradOp ? Strategy::HybridShardZero2
                                                 : Strategy::HybridShard;
  if (plain)
    strategy = Strategy::NoShard;
  if (strategy)
    option("strategy", spell(*strategy));
}

// FSDP2 says by a truth value what FSDP1 says by the strategy.
void Mapper::mapReshard(std::optional<Strategy> &strategy) {
  auto value = entries.take("fsdp_reshard_after_forward");
  if (!value || isNothing(*value))
    return;
  std::optional<bool> reshards = truthOf(*value);
  std::optional<Strategy> named = strategyOf(*value);
  bool hybrid = strategy && isHybrid(*strategy);
  if (value->size() > 1 && named)
    strategy = named;
  else if (!reshards)
    refuse("fsdp_reshard_after_forward", *value,
           "it is true, false or a strategy; for parts of the ranks give "
           "\"reshard_after_forward\" in a configuration's \"units\"");
  else if (hybrid)
    strategy = *reshards ? Strategy::HybridShard : Strategy::HybridShardZero2;
  else
    strategy = *reshards ? Strategy::FullShard : Strategy::ShardGradOp;
}

// Accelerate reduces in the same type as it gathers in.
void Mapper::mapPrecision() {
  auto value = entries.take("mixed_precision");
  if (!value || isNothing(*value) || *value == "no" || *value == "false")
    return;
  if (*value != "bf16" && *value != "fp16")
    return refuse("mixed_precision", *value,
                  "it is no, fp16 or bf16 here; use bf16, and "
                  "--matmul-dtype=fp8 for products of 8 bits");
  const char *type = spell(*value == "bf16" ? SHX_BF16 : SHX_F16);
  option("param-dtype", type);
  option("reduce-dtype", type);
}

void Mapper::mapUnits() {
  std::string policy =
      entries.take("fsdp_auto_wrap_policy").value_or("TRANSFORMER_BASED_WRAP");
  auto classes = entries.take("fsdp_transformer_layer_cls_to_wrap");
  std::optional<int64_t> least = number("fsdp_min_num_params");
  if (policy == "SIZE_BASED_WRAP") {
    if (!least || *least == 0)
      return refuse("fsdp_auto_wrap_policy", policy,
                    "wants fsdp_min_num_params, the elements of a unit");
    option("unit", "size:" + std::to_string(*least));
  } else if (policy == "NO_WRAP") {
    option("unit", "size:" + std::to_string(nn::kSizeOfNoUnit));
  } else if (policy != "TRANSFORMER_BASED_WRAP" && !isNothing(policy)) {
    refuse("fsdp_auto_wrap_policy", policy,
           "it is TRANSFORMER_BASED_WRAP, SIZE_BASED_WRAP or NO_WRAP");
  } else {
    option("unit", "block");
    if (classes && !isNothing(*classes))
      out.notes.push_back("fsdp_transformer_layer_cls_to_wrap (" + *classes +
                          ") is the repeated block: an exported graph has no "
                          "classes, --unit=REGEX names modules by path");
  }
  if (auto ignored = entries.take("fsdp_ignored_modules");
      ignored && !isNothing(*ignored))
    option("ignore", "(" + *ignored + ")\\..*");
  if (truth("fsdp_activation_checkpointing").value_or(false))
    option("recompute", spell(RecomputeKind::Block));
}

// FSDP1 without forward_prefetch still gathers one unit ahead, by its order of
// issue, and FSDP2 does so always: that is the default here.
void Mapper::mapPrefetch() {
  for (const char *key :
       {"fsdp_backward_prefetch", "fsdp_backward_prefetch_policy"}) {
    auto value = entries.take(key);
    if (!value || isNothing(*value))
      continue;
    int units = llvm::StringSwitch<int>(*value)
                    .Case("BACKWARD_PRE", 1)
                    .Cases({"BACKWARD_POST", "NO_PREFETCH"}, 0)
                    .Default(-1);
    if (units < 0)
      refuse(key, *value,
             "it is BACKWARD_PRE, BACKWARD_POST or NO_PREFETCH; "
             "--backward-prefetch takes any number of units");
    else
      option("backward-prefetch", std::to_string(units));
    break;
  }
  if (truth("fsdp_forward_prefetch"))
    option("forward-prefetch", "1");
}

void Mapper::mapState() {
  if (auto kind = entries.take("fsdp_state_dict_type");
      kind && !isNothing(*kind)) {
    if (*kind == "FULL_STATE_DICT")
      out.notes.push_back("fsdp_state_dict_type: checkpoints are sharded; "
                          "`shardonnx export` makes one file of them");
    else if (*kind == "SHARDED_STATE_DICT")
      out.unused.push_back("fsdp_state_dict_type");
    else
      refuse("fsdp_state_dict_type", *kind,
             "use SHARDED_STATE_DICT, which checkpoints (--save) are");
  }
  if (truth("fsdp_offload_params").value_or(false))
    refuse("fsdp_offload_params", "true",
           "leave it out here and give the executable --offload=params");
}

// Accelerate's own names for what a file of DeepSpeed's has, and its defaults.
void Mapper::mapDeepSpeed() {
  std::string prefix = (kDeepSpeed + ".").str();
  auto take = [&](const char *key) {
    auto value = entries.take(prefix + key);
    return value && !isNothing(*value) ? value : std::nullopt;
  };
  if (auto file = take("deepspeed_config_file"))
    return refuse(prefix + "deepspeed_config_file", *file,
                  "give that file to --config");
  std::string stage = take("zero_stage").value_or("2");
  if (std::optional<Strategy> strategy = strategyOfZeroStage(stage))
    option("strategy", spell(*strategy));
  else
    refuse(prefix + "zero_stage", stage, "it is 0, 1, 2 or 3");
  auto optimizer = take("offload_optimizer_device");
  auto params = take("offload_param_device");
  for (const char *path :
       {"offload_optimizer_nvme_path", "offload_param_nvme_path"})
    if (auto folder = take(path); folder && (optimizer || params))
      out.runtime.push_back("--offload-dir " + *folder);
  if (optimizer || params)
    out.runtime.push_back(std::string("--offload=") +
                          spell(params ? Offload::Params : Offload::Optimizer));
  if (auto steps = take("gradient_accumulation_steps"); steps && *steps != "1")
    out.runtime.push_back("--accumulate " + *steps);
  if (auto clip = take("gradient_clipping"))
    out.runtime.push_back("--clip-grad-norm " + *clip);
  for (const char *key :
       {"zero3_init_flag", "zero3_save_16bit_model", "deepspeed_hostfile",
        "deepspeed_multinode_launcher", "deepspeed_exclusion_filter",
        "deepspeed_inclusion_filter"})
    if (entries.take(prefix + key))
      out.unused.push_back(prefix + key);
}

// What the executable or its launcher is told.
void Mapper::mapLaunch() {
  std::optional<int64_t> processes = number("num_processes");
  std::optional<int64_t> machines = number("num_machines");
  if (processes && *processes > 0) {
    option("world-size", std::to_string(*processes));
    if (machines.value_or(1) <= 1)
      out.runtime.push_back("--nproc " + std::to_string(*processes));
  }
  if (machines.value_or(1) > 1)
    out.runtime.push_back("torchrun --nnodes " + std::to_string(*machines) +
                          " --no-python on each machine");
  if (auto steps = number("gradient_accumulation_steps"); steps && *steps > 1)
    out.runtime.push_back("--accumulate " + std::to_string(*steps));
  if (auto clip = entries.take("gradient_clipping"); clip && !isNothing(*clip))
    out.runtime.push_back("--clip-grad-norm " + *clip);
  if (truth("use_cpu").value_or(false))
    option("target", spell(TargetKind::CPU));
}

void Mapper::checkRest() {
  for (const auto &[key, value] : entries.rest()) {
    bool unused = llvm::is_contained(kUnused, StringRef(key));
    // What is off needs nothing; tpu_use_cluster: false is in every file.
    bool off = isNothing(value) || truthOf(value) == false;
    if (unused || (off && StringRef(key).starts_with("tpu_")))
      out.unused.push_back(key);
    else if (off && StringRef(key).ends_with("_config"))
      continue;
    else if (StringRef(key).starts_with("tpu_"))
      refuse(key, value, "there is no TPU target; --target is cpu or cuda");
    else if (StringRef(key).starts_with(kDeepSpeed) && !deepSpeed)
      refuse(key, value, "it is read with distributed_type: DEEPSPEED");
    else
      refuse(key, value,
             "no such key of Accelerate's configuration is known; "
             "shardonnx compile --help lists the options");
  }
}

ForeignConfig Mapper::map() {
  mapKind();
  mapMesh();
  deepSpeed ? mapDeepSpeed() : mapStrategy();
  mapPrecision();
  mapUnits();
  mapPrefetch();
  mapState();
  mapLaunch();
  checkRest();
  return std::move(out);
}

} // namespace

ForeignConfig readAccelerateConfig(const std::string &path) {
  Entries entries;
  if (std::string error = entries.read(path); !error.empty()) {
    ForeignConfig failed;
    failed.unreadable = error;
    return failed;
  }
  return Mapper(entries).map();
}

} // namespace shardonnx
