// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Modules, functions and launches.

#include "Driver.h"
#include "machine/Decoder.h"
#include <cstring>

using namespace shardonnx::emulator;

/// Room for the module's variables; their initial values once all have one.
static CUresult placeGlobals(CUmod_st &module, const PtxModule &ptx,
                             SymbolAddresses &addresses) {
  DeviceMemory &memory = DeviceMemory::get();
  int device = module.context->device;
  auto place = [&](const PtxVariable &variable) {
    if (variable.space != "global" && variable.space != "const")
      return true;
    if (variable.isExtern)
      throw PtxError(0, "external variable '" + variable.name + "'");
    size_t bytes = std::max<size_t>(variable.size, 1);
    CUdeviceptr address = memory.allocate(device, bytes);
    module.globals[variable.name] = {address, variable.size};
    addresses[variable.name] = address;
    return address != 0;
  };
  for (const PtxVariable &variable : ptx.variables)
    if (!place(variable))
      return CUDA_ERROR_OUT_OF_MEMORY;
  for (const PtxVariable &variable : ptx.variables) {
    auto placed = addresses.find(variable.name);
    if (placed == addresses.end() || !variable.size)
      continue;
    char *host = memory.translate(placed->second, variable.size);
    std::memset(host, 0, variable.size);
    std::memcpy(host, variable.initial.data(), variable.initial.size());
    for (const PtxVariable::Reference &reference : variable.references) {
      uint64_t value =
          addresses.count(reference.symbol)
              ? addresses[reference.symbol]
              : throw PtxError(0, "the initial value of '" + variable.name +
                                      "' is no variable");
      value += static_cast<uint64_t>(reference.addend);
      std::memcpy(host + reference.offset, &value, sizeof value);
    }
  }
  return CUDA_SUCCESS;
}

CUresult shardonnx::emulator::loadModule(CUmod_st &module, const char *text) {
  try {
    PtxModule ptx = parsePtx(text);
    SymbolAddresses addresses;
    if (CUresult result = placeGlobals(module, ptx, addresses))
      return result;
    for (const PtxFunction &function : ptx.functions) {
      if (!function.isEntry || function.isDeclaration)
        continue;
      auto made = std::make_unique<CUfunc_st>();
      made->module = &module;
      made->program =
          std::make_shared<Program>(Decoder(ptx, addresses).decode(function));
      module.functions[function.name] = std::move(made);
    }
  } catch (const PtxError &error) {
    say(error.what());
    return CUDA_ERROR_INVALID_PTX;
  }
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  Driver &driver = Driver::get();
  {
    std::lock_guard<std::recursive_mutex> lock(driver.mutex);
    if (!driver.modules.erase(module))
      return CUDA_ERROR_INVALID_HANDLE;
  }
  drainStreams(module->context, true);
  for (auto &[name, global] : module->globals)
    DeviceMemory::get().release(global.address);
  delete module;
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                            CUjit_option *options, void **values) {
  if (CUresult result = enterUnsafe("cuModuleLoadData"))
    return result;
  // Whoever passes a log gets the message there, too; here it is on stderr.
  for (unsigned k = 0; k < count; ++k)
    if (options[k] == CU_JIT_ERROR_LOG_BUFFER && values[k])
      *static_cast<char *>(values[k]) = '\0';
  const char *text = static_cast<const char *>(image);
  if (text[0] == '\x7f') {
    say("a cubin cannot be emulated: load PTX (CUDA_FORCE_PTX_JIT=1)");
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  auto created = std::make_unique<CUmod_st>();
  created->context = currentContext();
  constexpr size_t kCodeBytes = 1 << 20;
  created->memory =
      reserveMemory(created->context->device, kCodeBytes, "a module");
  if (!created->memory)
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (CUresult result = loadModule(*created, text)) {
    for (auto &[name, global] : created->globals)
      DeviceMemory::get().release(global.address);
    return result;
  }
  *module = created.release();
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  driver.modules.insert(*module);
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module,
                             const char *name) {
  if (CUresult result = enter())
    return result;
  auto found = module->functions.find(name);
  if (found == module->functions.end())
    return CUDA_ERROR_NOT_FOUND;
  *function = found->second.get();
  return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal(CUdeviceptr *address, size_t *bytes, CUmodule module,
                           const char *name) {
  if (CUresult result = enter())
    return result;
  auto found = module->globals.find(name);
  if (found == module->globals.end())
    return CUDA_ERROR_NOT_FOUND;
  if (address)
    *address = found->second.address;
  if (bytes)
    *bytes = found->second.bytes;
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
                            int value) {
  if (CUresult result = enter())
    return result;
  if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
    return CUDA_SUCCESS;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
    return CUDA_ERROR_NOT_SUPPORTED;
  int room = (227 << 10) - static_cast<int>(function->program->staticShared);
  if (value < 0 || value > room)
    return CUDA_ERROR_INVALID_VALUE;
  function->maxDynamicShared = value;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
                            CUfunction function) {
  if (CUresult result = enter())
    return result;
  const Program &program = *function->program;
  switch (attribute) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    *value = static_cast<int>(program.maxThreads);
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    *value = static_cast<int>(program.staticShared);
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    *value = static_cast<int>(program.localBytes);
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    *value = function->maxDynamicShared;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_NUM_REGS: // unknown before allocation: a guess
    *value = static_cast<int>(std::min(program.virtualRegisters, 255u));
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_PTX_VERSION:
  case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
    *value = 90;
    return CUDA_SUCCESS;
  default:
    *value = 0;
    return CUDA_SUCCESS;
  }
}

static CUresult refuse(const Program &program, CUresult code,
                       const std::string &why) {
  say("launch of " + program.name + " refused: " + why);
  return code;
}

static CUresult checkLaunch(const CUfunc_st &function, const Launch &launch) {
  const Program &program = *function.program;
  const uint32_t *grid = launch.grid, *block = launch.block;
  uint64_t threads = uint64_t(block[0]) * block[1] * block[2];
  if (!threads || !grid[0] || !grid[1] || !grid[2])
    return refuse(program, CUDA_ERROR_INVALID_VALUE, "an empty grid or block");
  if (threads > 1024 || block[2] > 64 || grid[0] > 0x7fffffffu ||
      grid[1] > 65535 || grid[2] > 65535)
    return refuse(program, CUDA_ERROR_INVALID_VALUE,
                  "the grid or block is too large");
  if (threads > program.maxThreads)
    return refuse(program, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
                  "more threads than the kernel was compiled for");
  if (launch.dynamicShared > static_cast<uint32_t>(function.maxDynamicShared) ||
      launch.dynamicShared + program.staticShared > 227u << 10)
    return refuse(program, CUDA_ERROR_INVALID_VALUE,
                  std::to_string(launch.dynamicShared) +
                      " bytes of dynamic shared memory, allowed are " +
                      std::to_string(function.maxDynamicShared));
  return CUDA_SUCCESS;
}

static CUresult fillParams(const Program &program, void **params, void **extra,
                           std::vector<char> &bytes) {
  bytes.resize(program.paramBytes);
  if (params) {
    for (size_t k = 0; k < program.params.size(); ++k)
      std::memcpy(bytes.data() + program.params[k].offset, params[k],
                  program.params[k].size);
    return CUDA_SUCCESS;
  }
  const void *buffer = nullptr;
  size_t size = 0;
  for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = extra[1];
    else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
      size = *static_cast<size_t *>(extra[1]);
  }
  if (size < bytes.size())
    return program.paramBytes ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  std::memcpy(bytes.data(), buffer, bytes.size());
  return CUDA_SUCCESS;
}

static CUresult launchKernel(CUfunction function, const CUlaunchConfig &config,
                             void **params, void **extra, bool programmatic) {
  CUstream stream = config.hStream;
  if (CUresult result = enterStream(stream))
    return result;
  if (!function || function->module->context != stream->context)
    return CUDA_ERROR_INVALID_HANDLE;
  std::shared_ptr<const Program> program = function->program;
  Launch launch;
  launch.program = program.get();
  uint32_t grid[3] = {config.gridDimX, config.gridDimY, config.gridDimZ};
  uint32_t block[3] = {config.blockDimX, config.blockDimY, config.blockDimZ};
  std::copy(grid, grid + 3, launch.grid);
  std::copy(block, block + 3, launch.block);
  launch.dynamicShared = config.sharedMemBytes;
  launch.device = stream->context->device;
  launch.programmatic = programmatic;
  if (CUresult result = checkLaunch(*function, launch))
    return result;
  if (CUresult result = fillParams(*program, params, extra, launch.params))
    return result;
  std::lock_guard<std::recursive_mutex> lock(Driver::get().mutex);
  if (programmatic && stream->capture && !isBehindKernel(*stream))
    return refuse(*program, CUDA_ERROR_INVALID_VALUE,
                  "it is programmatic, but not behind one kernel alone");
  CUresult result =
      enqueue(stream, "kernel " + program->name, [program, launch] {
        Launch now = launch;
        now.order = currentOrder();
        runLaunch(now);
      });
  if (result == CUDA_SUCCESS && stream->capture)
    stream->capture->graph->nodes.back().programmatic = programmatic;
  return result;
}

CUresult cuLaunchKernel(CUfunction function, unsigned gridX, unsigned gridY,
                        unsigned gridZ, unsigned blockX, unsigned blockY,
                        unsigned blockZ, unsigned shared, CUstream stream,
                        void **params, void **extra) {
  CUlaunchConfig config = {gridX,  gridY,  gridZ,  blockX,  blockY,
                           blockZ, shared, stream, nullptr, 0};
  return launchKernel(function, config, params, extra, /*programmatic=*/false);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                          void **params, void **extra) {
  bool programmatic = false;
  for (unsigned k = 0; k < config->numAttrs; ++k) {
    const CUlaunchAttribute &attribute = config->attrs[k];
    bool cluster = attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
                   attribute.value.clusterDim.x * attribute.value.clusterDim.y *
                           attribute.value.clusterDim.z !=
                       1;
    bool cooperative = attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE &&
                       attribute.value.cooperative;
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      programmatic = attribute.value.programmaticStreamSerializationAllowed;
    if (cluster || cooperative) {
      say("clusters and cooperative launches are not emulated");
      return CUDA_ERROR_NOT_SUPPORTED;
    }
  }
  return launchKernel(function, *config, params, extra, programmatic);
}
