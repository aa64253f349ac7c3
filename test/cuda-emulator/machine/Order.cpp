// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which piece of work comes before which, and who touched memory last.

#include "Order.h"
#include "Machine.h"
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <sys/mman.h>

using namespace shardonnx::emulator;

namespace {

/// The last access of a kind to a byte: work in the upper half, block below.
constexpr uint64_t kAtomic = 0x8000'0000;
constexpr uint64_t kManyBlocks = 0x7fff'ffff;

struct Cell {
  std::atomic<uint64_t> write, read;
};

struct Shadow {
  const char *base;
  size_t bytes;
  Cell *cells;
};

struct Registry {
  std::shared_mutex mutex;
  std::deque<Order> orders;
  std::vector<Shadow> shadows;
  static Registry &get() {
    static Registry *registry = new Registry;
    return *registry;
  }
};

Cell *cellsOf(const char *host) {
  Registry &registry = Registry::get();
  std::shared_lock<std::shared_mutex> lock(registry.mutex);
  for (const Shadow &shadow : registry.shadows)
    if (host >= shadow.base && host < shadow.base + shadow.bytes)
      return shadow.cells + (host - shadow.base);
  return nullptr;
}

bool comesBefore(const Order &a, const Order &b) {
  if (a.timeline == b.timeline && a.sequence == b.sequence)
    return a.graph && (*a.graph)[a.node][b.node];
  return a.timeline < b.clock->size() && (*b.clock)[a.timeline] >= a.sequence;
}

const Order &orderOf(uint32_t id) {
  Registry &registry = Registry::get();
  std::shared_lock<std::shared_mutex> lock(registry.mutex);
  return registry.orders[id - 1]; // a deque moves nothing
}

/// The answer for the pair asked for last is kept: neighbours have the same.
bool isOrdered(uint32_t before, const Order &now) {
  static thread_local uint32_t lastBefore = 0, lastNow = 0;
  if (before == lastBefore && now.id == lastNow)
    return true;
  if (!comesBefore(orderOf(before), now))
    return false;
  lastBefore = before;
  lastNow = now.id;
  return true;
}

struct Access {
  const Order &order;
  uint64_t block;
  bool writes, atomic, blocksCommunicate;
};

/// Does the access `then` stand against this one?
bool conflicts(uint64_t then, const Access &now) {
  uint32_t id = static_cast<uint32_t>(then >> 32);
  if (!id || (now.atomic && (then & kAtomic)))
    return false;
  if (id != now.order.id)
    return !isOrdered(id, now.order);
  return !now.blocksCommunicate && (then & ~kAtomic & 0xffff'ffff) != now.block;
}

/// 'kernel k' (work 7 of stream 2, node 3 of its graph)
std::string describe(const Order &order) {
  std::string text =
      "'" + order.name + "' (work " + std::to_string(order.sequence) + " of " +
      (order.timeline ? "stream " + std::to_string(order.timeline)
                      : "the host");
  if (order.graph)
    text += ", node " + std::to_string(order.node) + " of its graph";
  return text + ")";
}

std::string explain(uint64_t then, bool wrote, const Access &now) {
  uint32_t id = static_cast<uint32_t>(then >> 32);
  std::string verb = wrote ? "written" : "read";
  if (id == now.order.id)
    return "race in global memory: another block of this kernel has " + verb +
           " the same bytes";
  return "race in global memory: " + describe(orderOf(id)) + " has " + verb +
         " the same bytes, and nothing orders it and " + describe(now.order);
}

std::string touchCell(Cell &cell, const Access &now) {
  uint64_t mine = uint64_t(now.order.id) << 32 | now.block;
  uint64_t wrote = cell.write.load(std::memory_order_relaxed);
  uint64_t read = cell.read.load(std::memory_order_relaxed);
  if (conflicts(wrote, now))
    return explain(wrote, true, now);
  if (now.writes) {
    if (!now.atomic && conflicts(read, now))
      return explain(read, false, now);
    cell.write.store(mine | (now.atomic ? kAtomic : 0),
                     std::memory_order_relaxed);
    return "";
  }
  if (read >> 32 == now.order.id) {
    if ((read & 0xffff'ffff) != now.block)
      cell.read.store((mine & ~uint64_t(0xffff'ffff)) | kManyBlocks,
                      std::memory_order_relaxed);
  } else if (!(read >> 32) ||
             isOrdered(static_cast<uint32_t>(read >> 32), now.order)) {
    cell.read.store(mine, std::memory_order_relaxed);
  }
  return "";
}

std::string touch(const char *host, size_t bytes, const Access &access) {
  Cell *cells = cellsOf(host);
  if (!cells)
    return "";
  for (size_t k = 0; k < bytes; ++k) {
    std::string text = touchCell(cells[k], access);
    if (!text.empty())
      return text;
  }
  return "";
}

} // namespace

void shardonnx::emulator::mergeClock(Clock &into, const Clock &from) {
  if (into.size() < from.size())
    into.resize(from.size());
  for (size_t k = 0; k < from.size(); ++k)
    into[k] = std::max(into[k], from[k]);
}

bool shardonnx::emulator::raceChecking() {
  static const bool asked = [] {
    const char *text = std::getenv("SHARDONNX_EMULATOR_RACECHECK");
    return text && *text && *text != '0';
  }();
  return asked;
}

std::shared_ptr<const Order> &shardonnx::emulator::currentOrder() {
  static thread_local std::shared_ptr<const Order> current;
  return current;
}

void shardonnx::emulator::beginOrder(Order order) {
  Registry &registry = Registry::get();
  {
    std::unique_lock<std::shared_mutex> lock(registry.mutex);
    registry.orders.push_back(order);
    order.id = static_cast<uint32_t>(registry.orders.size());
    registry.orders.back().id = order.id;
  }
  currentOrder() = std::make_shared<const Order>(std::move(order));
}

void shardonnx::emulator::touchMemory(const char *host, size_t bytes,
                                      bool writes) {
  std::shared_ptr<const Order> order = currentOrder();
  if (!order)
    return;
  std::string text = touch(host, bytes, {*order, 0, writes, false, false});
  if (!text.empty())
    throw Fault(CUDA_ERROR_LAUNCH_FAILED, order->name + ": " + text);
}

std::string shardonnx::emulator::touchFromBlock(const Order &order,
                                                uint64_t block,
                                                const char *host, size_t bytes,
                                                bool writes, bool atomic,
                                                bool blocksCommunicate) {
  uint64_t number = block % kManyBlocks;
  return touch(host, bytes, {order, number, writes, atomic, blocksCommunicate});
}

void shardonnx::emulator::forgetMemory(const char *host, size_t bytes) {
  if (Cell *cells = raceChecking() ? cellsOf(host) : nullptr)
    std::fill_n(reinterpret_cast<uint64_t *>(cells), bytes * 2, 0);
}

void shardonnx::emulator::addShadow(const char *base, size_t bytes) {
  if (!raceChecking())
    return;
  void *cells = mmap(nullptr, bytes * sizeof(Cell), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (cells == MAP_FAILED) {
    std::perror("cuda emulator: cannot map room for race checking");
    std::abort();
  }
  Registry &registry = Registry::get();
  std::unique_lock<std::shared_mutex> lock(registry.mutex);
  registry.shadows.push_back({base, bytes, static_cast<Cell *>(cells)});
}
