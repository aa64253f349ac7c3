// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Events: the order between streams, captured or not.

#include "Driver.h"

using namespace shardonnx::emulator;

static CUresult enterEvent(CUevent event) {
  if (CUresult result = enter())
    return result;
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  return driver.events.count(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventCreate(CUevent *event, unsigned flags) {
  if (CUresult result = enter())
    return result;
  auto *created = new CUevent_st;
  created->flags = flags;
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  driver.events.insert(created);
  *event = created;
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  if (!driver.events.erase(event))
    return CUDA_ERROR_INVALID_HANDLE;
  delete event;
  return CUDA_SUCCESS;
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream,
                                unsigned flags) {
  if (CUresult result = enterStream(stream))
    return result;
  if (CUresult result = enterEvent(event))
    return result;
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  if (stream->capture && !(flags & CU_EVENT_RECORD_EXTERNAL)) {
    if (stream->capture->invalid)
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event->captured = true;
    event->capture = stream->capture;
    event->tips = stream->tips;
    return CUDA_SUCCESS;
  }
  if (stream->capture)
    // Each launch of the graph records the event anew.
    return enqueue(stream, "event record", [event] {
      auto now = std::make_shared<Completion>();
      now->finish();
      std::lock_guard<std::recursive_mutex> lock(Driver::get().mutex);
      if (!Driver::get().events.count(event))
        return;
      event->last = now;
      // Behind the whole graph: more than it is, so nothing is reported
      // wrongly.
      if (std::shared_ptr<const Order> order = currentOrder()) {
        event->clock = *order->clock;
        event->clock[order->timeline] = order->sequence;
      }
    });
  event->captured = false;
  event->last = std::make_shared<Completion>();
  event->clock = stream->clock;
  // Not enqueue(): waiters must go on after an error, too.
  stream->push([last = event->last] { last->finish(); });
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return cuEventRecordWithFlags(event, stream, 0);
}

/// Work captured after an event that was captured itself.
static CUresult waitCaptured(CUstream stream, CUevent event) {
  std::shared_ptr<Capture> capture = event->capture.lock();
  if (!capture || !capture->graph) {
    say("cuStreamWaitEvent: the event was recorded in a capture that has "
        "ended");
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  if (stream->capture && stream->capture != capture) {
    stream->capture->invalid = capture->invalid = true;
    say("cuStreamWaitEvent joins two captures");
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (!stream->capture) {
    stream->capture = capture;
    capture->streams.insert(stream);
    stream->tips.clear();
  }
  stream->tips.insert(event->tips.begin(), event->tips.end());
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  if (CUresult result = enterStream(stream))
    return result;
  if (CUresult result = enterEvent(event))
    return result;
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  if (flags & CU_EVENT_WAIT_EXTERNAL) {
    if (!stream->capture)
      return CUDA_ERROR_INVALID_VALUE;
    return enqueue(stream, "event wait", [event] {
      std::shared_ptr<Completion> last;
      {
        std::lock_guard<std::recursive_mutex> lock(Driver::get().mutex);
        if (Driver::get().events.count(event))
          last = event->last;
      }
      if (last)
        last->wait();
    });
  }
  if (event->captured)
    return waitCaptured(stream, event);
  if (stream->capture) {
    stream->capture->invalid = true;
    say("a stream that captures waits for an event recorded outside the "
        "capture");
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  mergeClock(stream->clock, event->clock);
  if (event->last)
    stream->push([last = event->last] { last->wait(); });
  return CUDA_SUCCESS;
}

static CUresult enterHostWait(CUevent event, const char *name) {
  if (CUresult result = enterEvent(event))
    return result;
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  if (!event->captured)
    return CUDA_SUCCESS;
  if (auto capture = event->capture.lock())
    capture->invalid = true;
  say(std::string(name) + " of an event that was captured");
  return CUDA_ERROR_CAPTURED_EVENT;
}

static void seeEvent(CUevent event) {
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  mergeClock(driver.host, event->clock);
}

CUresult cuEventQuery(CUevent event) {
  if (CUresult result = enterHostWait(event, "cuEventQuery"))
    return result;
  std::shared_ptr<Completion> last = event->last;
  if (last && !last->isDone())
    return CUDA_ERROR_NOT_READY;
  seeEvent(event);
  return currentContext()->error;
}

CUresult cuEventSynchronize(CUevent event) {
  if (CUresult result = enterHostWait(event, "cuEventSynchronize"))
    return result;
  if (std::shared_ptr<Completion> last = event->last)
    last->wait();
  seeEvent(event);
  return currentContext()->error;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  for (CUevent event : {start, end}) {
    if (CUresult result = enterHostWait(event, "cuEventElapsedTime"))
      return result;
    if (event->flags & CU_EVENT_DISABLE_TIMING || !event->last)
      return CUDA_ERROR_INVALID_HANDLE;
    if (!event->last->isDone())
      return CUDA_ERROR_NOT_READY;
  }
  std::chrono::duration<float, std::milli> passed =
      end->last->time - start->last->time;
  *milliseconds = passed.count();
  return CUDA_SUCCESS;
}
