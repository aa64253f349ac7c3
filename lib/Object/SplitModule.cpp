// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parts travel as bitcode: a thread reads one into a context of its own, and a
// cache knows it by its bytes. A kernel's symbol ends in their hash, so that
// its object serves any program, whatever number its name had in the IR.

#include "SplitModule.h"
#include "shardonnx/runtime/Sha256.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/Support/MemoryBufferRef.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace shardonnx;
using llvm::StringRef;

// rows_add_12 -> rows_add: the number tells it from others of the program.
static StringRef withoutNumber(StringRef name) {
  StringRef stem = name.rtrim("0123456789");
  return stem.size() < name.size() && stem.size() > 1 && stem.ends_with("_")
             ? stem.drop_back()
             : name;
}

static void write(const llvm::Module &module, ModulePart &part) {
  llvm::raw_svector_ostream stream(part.bitcode);
  llvm::WriteBitcodeToFile(module, stream);
}

static void removeUnused(llvm::Module &module) {
  for (llvm::Function &function : llvm::make_early_inc_range(module))
    if (function.isDeclaration() && function.use_empty())
      function.eraseFromParent();
  for (auto &global : llvm::make_early_inc_range(module.globals()))
    if ((global.isDeclaration() || global.hasLocalLinkage()) &&
        global.use_empty())
      global.eraseFromParent();
}

// Some functions of a module, with the constants that they read.
static std::unique_ptr<llvm::Module>
cloneOf(llvm::ArrayRef<llvm::Function *> functions,
        llvm::ValueToValueMapTy &map) {
  std::unique_ptr<llvm::Module> clone =
      llvm::CloneModule(*functions.front()->getParent(), map,
                        [&](const llvm::GlobalValue *value) {
                          return llvm::is_contained(functions, value) ||
                                 (llvm::isa<llvm::GlobalVariable>(value) &&
                                  value->hasLocalLinkage());
                        });
  removeUnused(*clone);
  return clone;
}

// A function alone, with the constants that it reads. A local one gets a name
// for other objects to call it by.
static ModulePart takeKernel(llvm::Function &kernel) {
  llvm::ValueToValueMapTy map;
  std::unique_ptr<llvm::Module> alone = cloneOf(&kernel, map);
  ModulePart part;
  part.isKernel = true;
  bool local = kernel.hasLocalLinkage();
  part.name =
      (local ? withoutNumber(kernel.getName()) : kernel.getName()).str();
  auto *copy = llvm::cast<llvm::Function>(map[&kernel]);
  copy->setName(part.name);
  if (local) {
    copy->setLinkage(llvm::GlobalValue::ExternalLinkage);
    copy->setVisibility(llvm::GlobalValue::HiddenVisibility);
  }
  write(*alone, part);
  rt::Sha256 hash;
  hash.update(part.bitcode.data(), part.bitcode.size());
  part.symbol = local ? part.name + "." + hash.hex().substr(0, 16) : part.name;
  return part;
}

std::vector<ModulePart> shardonnx::splitModule(llvm::Module &module) {
  std::vector<ModulePart> parts(1);
  llvm::SmallVector<llvm::Function *> kernels;
  for (llvm::Function &function : module)
    if (!function.isDeclaration() &&
        !function.hasFnAttribute(llvm::Attribute::OptimizeNone))
      kernels.push_back(&function);
  // A clone begins with declarations of all others, so that one of the whole
  // module for each kernel took the square of their number.
  constexpr size_t kKernelsOfClone = 32;
  for (llvm::ArrayRef<llvm::Function *> rest = kernels; !rest.empty();) {
    llvm::ArrayRef<llvm::Function *> some =
        rest.take_front(std::min(rest.size(), kKernelsOfClone));
    rest = rest.drop_front(some.size());
    llvm::ValueToValueMapTy map;
    std::unique_ptr<llvm::Module> clone = cloneOf(some, map);
    for (llvm::Function *kernel : some)
      parts.push_back(takeKernel(*llvm::cast<llvm::Function>(map[kernel])));
  }
  llvm::StringMap<llvm::Function *> known; // by symbol
  for (auto [index, kernel] : llvm::enumerate(kernels)) {
    ModulePart &part = parts[index + 1];
    bool local = kernel->hasLocalLinkage();
    kernel->deleteBody(); // leaves an external declaration
    if (local)
      kernel->setVisibility(llvm::GlobalValue::HiddenVisibility);
    llvm::Function *&first = known[part.symbol];
    if (first) {
      kernel->replaceAllUsesWith(first);
      kernel->eraseFromParent();
      part.symbol.clear();
      continue;
    }
    first = kernel;
    kernel->setName(part.symbol);
  }
  llvm::erase_if(parts, [](const ModulePart &part) {
    return part.isKernel && part.symbol.empty();
  });
  removeUnused(module);
  write(module, parts.front());
  return parts;
}

llvm::Expected<std::unique_ptr<llvm::Module>>
shardonnx::readPart(const ModulePart &part, llvm::LLVMContext &context) {
  auto module = llvm::parseBitcodeFile(
      llvm::MemoryBufferRef(part.bitcode, "model"), context);
  if (module && part.isKernel)
    (*module)->getFunction(part.name)->setName(part.symbol);
  return module;
}
