// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See CudnnAttention.h. The graphs are those of cuDNN's C++ frontend, whose
// headers take half a minute to compile: keep what does not need them out.

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB

#include "CudnnAttention.h"
#include "../driver/Library.h"
#include <cstdlib>
#include <cudnn_frontend.h>
#include <map>

namespace cudnn_frontend {
void *cudnn_dlhandle = nullptr; // what the frontend looks functions up in
} // namespace cudnn_frontend

namespace shardonnx::rt::cuda {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

// The operands' names in a graph.
enum Uid : int64_t {
  Q = 1,
  K,
  V,
  Out,
  Lse,
  Dout,
  Dq,
  Dk,
  Dv,
  Queries, // of each document
  Keys,
  Offsets // and what follows
};

fe::DataType_t typeOf(int32_t dtype) {
  return dtype == SHX_BF16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF;
}

// The frontend's messages go on for lines.
std::string firstLine(const std::string &text) {
  return text.substr(0, text.find('\n'));
}

class Plan final : public CudnnPlan {
public:
  Plan(const ShxAttention &desc, bool grad, const CudnnTarget &target)
      : d(desc), grad(grad), target(target) {}

  // Returns what refuses it, or nothing.
  std::string build(int64_t workspaceBytes);
  int64_t workspaceBytes() const override { return graph.get_workspace_size(); }
  std::string name() const override {
    std::string text;
    return graph.get_plan_name(text).is_good() ? text : "";
  }
  std::string run(const CudnnOperands &operands, void *workspace) override;

private:
  // [batch, heads, seq, headDim], whatever the order in memory. Documents are
  // a batch of their own.
  void shape(const Tensor &tensor, Uid uid, int64_t heads, int64_t rows,
             const int64_t (&stride)[3]) {
    tensor->set_uid(uid)
        .set_dim({sequences(), heads, rows, d.headDim})
        .set_stride({stride[0], stride[2], stride[1], 1})
        .set_data_type(typeOf(d.dtype));
    if (d.documents > 0)
      tensor->set_ragged_offset(offsets(stride[1]));
  }
  Tensor input(Uid uid, int64_t heads, int64_t rows,
               const int64_t (&stride)[3]) {
    Tensor tensor = graph.tensor(fe::graph::Tensor_attributes());
    shape(tensor, uid, heads, rows, stride);
    return tensor;
  }
  void output(const Tensor &tensor, Uid uid, int64_t heads, int64_t rows,
              const int64_t (&stride)[3]) {
    shape(tensor, uid, heads, rows, stride);
    tensor->set_output(true);
  }
  void shapeLse(const Tensor &tensor) {
    tensor->set_uid(Lse)
        .set_dim({sequences(), d.heads, d.seqQ, 1})
        .set_data_type(fe::DataType_t::FLOAT);
    if (d.documents > 0)
      tensor->set_stride({d.heads * d.seqQ, 1, d.heads, 1})
          .set_ragged_offset(offsets(d.heads));
    else
      tensor->set_stride({d.heads * d.seqQ, d.seqQ, 1, 1});
  }
  int64_t sequences() const { return d.documents > 0 ? d.documents : d.batch; }
  Tensor numbers(int64_t uid, int64_t count) {
    Tensor tensor = graph.tensor(fe::graph::Tensor_attributes());
    tensor->set_uid(uid)
        .set_dim({count, 1, 1, 1})
        .set_stride({1, 1, 1, 1})
        .set_data_type(fe::DataType_t::INT32);
    return tensor;
  }
  // Where documents begin in tensors whose tokens are so far apart.
  Tensor offsets(int64_t stride) {
    Tensor &tensor = offsetsByStride[stride];
    if (!tensor)
      tensor =
          numbers(Offsets + int64_t(offsetsByStride.size()), d.documents + 1);
    return tensor;
  }
  // The last query sees the last key. cuDNN is happier with its other word for
  // it where there are as many of both.
  template <typename Attributes> void setVisibleKeys(Attributes &attributes) {
    if (d.documents > 0)
      attributes.set_padding_mask(true)
          .set_seq_len_q(numbers(Queries, d.documents))
          .set_seq_len_kv(numbers(Keys, d.documents));
    if (!d.causal)
      return;
    attributes
        .set_diagonal_alignment(d.seqQ == d.seqK
                                    ? fe::DiagonalAlignment_t::TOP_LEFT
                                    : fe::DiagonalAlignment_t::BOTTOM_RIGHT)
        .set_diagonal_band_right_bound(0);
    if (d.window > 0 && d.window < d.seqK)
      attributes.set_diagonal_band_left_bound(int(d.window));
  }
  void describeForward();
  void describeBackward();
  fe::error_t makePlan(int64_t workspaceBytes);

  const ShxAttention d;
  const bool grad;
  const CudnnTarget target;
  std::shared_ptr<fe::DeviceProperties> device;
  fe::graph::Graph graph;
  std::map<int64_t, Tensor> offsetsByStride;
};

void Plan::describeForward() {
  auto attributes = fe::graph::SDPA_attributes()
                        .set_name("attention")
                        .set_generate_stats(true)
                        .set_attn_scale(d.scale);
  setVisibleKeys(attributes);
  Tensor q = input(Q, d.heads, d.seqQ, d.qStride);
  Tensor k = input(K, d.kvHeads, d.seqK, d.kStride);
  Tensor v = input(V, d.kvHeads, d.seqK, d.vStride);
  auto results = graph.sdpa(q, k, v, attributes);
  output(results[0], Out, d.heads, d.seqQ, d.outStride);
  shapeLse(results[1]);
  results[1]->set_output(true);
}

void Plan::describeBackward() {
  auto attributes =
      fe::graph::SDPA_backward_attributes()
          .set_name("attention_grad")
          .set_attn_scale(d.scale)
          .set_deterministic_algorithm(d.flags & SHX_ATTENTION_DETERMINISTIC);
  setVisibleKeys(attributes);
  // Else the workspace is for as many whole samples as documents.
  if (d.documents > 0)
    attributes.set_max_total_seq_len_q(d.batch * d.seqQ)
        .set_max_total_seq_len_kv(d.batch * d.seqK);
  Tensor q = input(Q, d.heads, d.seqQ, d.qStride);
  Tensor k = input(K, d.kvHeads, d.seqK, d.kStride);
  Tensor v = input(V, d.kvHeads, d.seqK, d.vStride);
  Tensor out = input(Out, d.heads, d.seqQ, d.outStride);
  Tensor dout = input(Dout, d.heads, d.seqQ, d.doutStride);
  Tensor lse = graph.tensor(fe::graph::Tensor_attributes());
  shapeLse(lse);
  auto results = graph.sdpa_backward(q, k, v, out, dout, lse, attributes);
  output(results[0], Dq, d.heads, d.seqQ, d.dqStride);
  output(results[1], Dk, d.kvHeads, d.seqK, d.dkStride);
  output(results[2], Dv, d.kvHeads, d.seqK, d.dvStride);
}

fe::error_t Plan::makePlan(int64_t workspaceBytes) {
  auto handle = static_cast<cudnnHandle_t>(target.handle);
  if (!handle) {
    device = std::make_shared<fe::DeviceProperties>();
    fe::error_t error = device->deserialize(
        {target.description.begin(), target.description.end()});
    if (error.is_bad())
      return error;
    graph.set_device_properties(device);
  }
  fe::error_t error = graph.validate();
  if (error.is_good())
    error = handle ? graph.build_operation_graph(handle)
                   : graph.build_operation_graph();
  if (error.is_good())
    error = graph.create_execution_plans(
        {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
  if (error.is_bad())
    return error;
  graph.deselect_workspace_greater_than(workspaceBytes);
  error = graph.check_support();
  if (error.is_good())
    error = graph.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE);
  return error;
}

std::string Plan::build(int64_t workspaceBytes) {
  graph.set_io_data_type(typeOf(d.dtype))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT)
      .set_sm_version(target.arch)
      // A plan lives as long as the CUDA graphs that it is captured in.
      .set_cuda_graph_retention(fe::CudaGraphRetention_t::NONE);
  if (grad)
    describeBackward();
  else
    describeForward();
  if (fe::error_t error = makePlan(workspaceBytes); error.is_bad())
    return "cuDNN refuses it: " + firstLine(error.get_message());
  if (graph.get_workspace_size() > workspaceBytes)
    return concat("cuDNN wants ", graph.get_workspace_size(),
                  " bytes of workspace and ", workspaceBytes, " were planned");
  return {};
}

std::string Plan::run(const CudnnOperands &operands, void *workspace) {
  std::unordered_map<int64_t, void *> pack = {
      {Q, const_cast<void *>(operands.q)},
      {K, const_cast<void *>(operands.k)},
      {V, const_cast<void *>(operands.v)},
      {Out, operands.out},
      {Lse, operands.lse}};
  if (grad) {
    pack[Dout] = const_cast<void *>(operands.dout);
    pack[Dq] = operands.dq;
    pack[Dk] = operands.dk;
    pack[Dv] = operands.dv;
  }
  if (d.documents > 0)
    pack[Queries] = pack[Keys] =
        const_cast<int32_t *>(operands.documents->lengths());
  for (const auto &[stride, tensor] : offsetsByStride) {
    const int32_t *column = operands.documents->offsets(stride);
    if (!column)
      return "documents lie in tensors of too many shapes";
    pack[tensor->get_uid()] = const_cast<int32_t *>(column);
  }
  fe::error_t error =
      graph.execute(static_cast<cudnnHandle_t>(target.handle), pack, workspace);
  return error.is_bad() ? firstLine(error.get_message()) : std::string();
}

std::string load() {
  try {
    // The frontend would take CUDA 12's where there are both.
    Library runtime =
        Library::ofToolkit("libcudart.so.13", "the CUDA 13 runtime");
    ::setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", runtime.path().c_str(),
             /*overwrite=*/0);
    Library library = Library::ofToolkit("libcudnn.so.9", "cuDNN 9");
    library.require("cudnnBackendFinalize");
    fe::cudnn_dlhandle = library.native();
    return {};
  } catch (const std::exception &error) {
    return error.what();
  }
}

} // namespace

const std::string &loadCudnn() {
  static const std::string refusal = load();
  return refusal;
}

int64_t cudnnVersion() {
  return loadCudnn().empty() ? int64_t(fe::detail::get_backend_version()) : 0;
}

// The frontend throws where the library lacks a function.
std::unique_ptr<CudnnPlan> makeCudnnPlan(const ShxAttention &desc, bool grad,
                                         const CudnnTarget &target,
                                         int64_t workspaceBytes,
                                         std::string &refusal) {
  refusal = loadCudnn();
  if (!refusal.empty())
    return nullptr;
  try {
    auto plan = std::make_unique<Plan>(desc, grad, target);
    refusal = plan->build(workspaceBytes);
    if (refusal.empty())
      return plan;
  } catch (const std::exception &error) {
    refusal = error.what();
  }
  return nullptr;
}

void *makeCudnnHandle(CUstream stream, std::string &refusal) {
  refusal = loadCudnn();
  if (!refusal.empty())
    return nullptr;
  try {
    cudnnHandle_t handle = nullptr;
    cudnnStatus_t status = fe::detail::create_handle(&handle);
    if (status == CUDNN_STATUS_SUCCESS)
      status = fe::detail::set_stream(handle, stream);
    if (status == CUDNN_STATUS_SUCCESS)
      return handle;
    refusal =
        concat("cuDNN does not start: ", fe::detail::get_error_string(status));
  } catch (const std::exception &error) {
    refusal = error.what();
  }
  return nullptr;
}

void endCudnnHandle(void *handle) {
  fe::detail::destroy_handle(static_cast<cudnnHandle_t>(handle));
}

} // namespace shardonnx::rt::cuda
