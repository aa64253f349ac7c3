// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A shared library that is loaded when it is needed: the programs run on
// machines whose CUDA libraries lie in different places, and some need none.

#ifndef SHARDONNX_RUNTIME_CUDA_LIBRARY_H
#define SHARDONNX_RUNTIME_CUDA_LIBRARY_H

#include <string>
#include <vector>

namespace shardonnx::rt::cuda {

class Library {
public:
  /// Where a library of the CUDA toolkit may lie: where the loader looks
  /// (LD_LIBRARY_PATH), then $CUDA_HOME/lib64, then /usr/local/cuda/lib64.
  static std::vector<std::string> candidates(const std::string &soname);

  /// Loads the first of candidates(soname) that there is. Otherwise throws an
  /// Error: which library (`title`: "cuDNN 9"), where it was looked for, and
  /// how to mend it.
  static Library ofToolkit(const std::string &soname, const std::string &title);

  /// As above with other places; `remedy` ends the message.
  Library(const std::vector<std::string> &candidates, const std::string &title,
          const std::string &remedy);

  /// The file that was loaded, as the loader calls it.
  const std::string &path() const { return name; }
  void *find(const char *symbol) const;   // null when it has none
  void *native() const { return handle; } // what dlsym takes
  /// Throws an Error that names the library and the symbol.
  void *require(const char *symbol) const;
  template <typename Function>
  void load(Function &function, const char *symbol) const {
    function = reinterpret_cast<Function>(require(symbol));
  }

private:
  /// Never closed: CUDA's libraries run code of their own at exit.
  void *handle = nullptr;
  std::string name, title;
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_LIBRARY_H
