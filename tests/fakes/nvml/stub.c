// A stand-in for libnvidia-ml.so.1: the part of NVML's ABI that a telemetry agent uses, answered from a text file.
//
// NVML_STUB_STATE names the file, read again whenever it is replaced:
//     count=2                 driver=570.86.15
//     <gpu>.<key>=<value>     a key that is absent answers NOT_SUPPORTED, as a GPU without that capability does
//     fail.<symbol>=<code>    fail.<gpu>.<symbol>=<code>    fail.<gpu>.*=<code>      nvmlReturn_t codes
// NVML_STUB_EVENTS names a file to which events are appended, one "gpu,type,data" a line.
//
// Layouts follow the structures of the nvidia-ml-py binding. Symbols that are not here are FUNCTION_NOT_FOUND there.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef uint32_t u32;
typedef unsigned long long u64;
typedef u32 nvmlReturn;

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    TIMED_OUT = 10,
    VERSION_MISMATCH = 25,
};
enum { MAX_PAIRS = 4096, MAX_GPUS = 64, KEY_BYTES = 96, VALUE_BYTES = 160, LINE_BYTES = 300 };

struct pair { char key[KEY_BYTES], value[VALUE_BYTES]; };
struct device { u32 index; };

static struct pair pairs[MAX_PAIRS];
static int pair_count;
static struct stat last_seen;
static struct device devices[MAX_GPUS];
static int users;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// ---- state ------------------------------------------------------------------------------------------------------

static int unchanged(const struct stat *now) {
    return now->st_ino == last_seen.st_ino && now->st_size == last_seen.st_size &&
           now->st_mtim.tv_sec == last_seen.st_mtim.tv_sec && now->st_mtim.tv_nsec == last_seen.st_mtim.tv_nsec;
}

static void load(void) {
    const char *path = getenv("NVML_STUB_STATE");
    struct stat now;
    if (!path || stat(path, &now) || unchanged(&now)) return;
    FILE *file = fopen(path, "r");
    if (!file) return;
    char line[LINE_BYTES];
    last_seen = now;
    pair_count = 0;
    while (fgets(line, sizeof line, file) && pair_count < MAX_PAIRS) {
        char *equals = strchr(line, '=');
        if (!equals || *line == '#') continue;
        *equals = 0;
        equals[1 + strcspn(equals + 1, "\r\n")] = 0;
        snprintf(pairs[pair_count].key, KEY_BYTES, "%.95s", line);
        snprintf(pairs[pair_count].value, VALUE_BYTES, "%.159s", equals + 1);
        pair_count++;
    }
    fclose(file);
}

static const char *value_of(const char *key) {
    for (int i = pair_count - 1; i >= 0; i--)
        if (!strcmp(pairs[i].key, key)) return pairs[i].value;
    return NULL;
}

static const char *device_value(const struct device *gpu, const char *key) {
    char full[KEY_BYTES];
    snprintf(full, sizeof full, "%u.%s", gpu->index, key);
    return value_of(full);
}

static nvmlReturn injected(const struct device *gpu, const char *symbol) {
    char key[KEY_BYTES];
    snprintf(key, sizeof key, "fail.%s", symbol);
    const char *code = value_of(key);
    if (!code && gpu) {
        snprintf(key, sizeof key, "fail.%u.%s", gpu->index, symbol);
        code = value_of(key);
    }
    if (!code && gpu) {
        snprintf(key, sizeof key, "fail.%u.*", gpu->index);
        code = value_of(key);
    }
    return code ? (nvmlReturn)atoi(code) : SUCCESS;
}

static nvmlReturn entered(const struct device *gpu, const char *symbol) {
    pthread_mutex_lock(&lock);
    load();
    nvmlReturn code = users ? injected(gpu, symbol) : UNINITIALIZED;
    pthread_mutex_unlock(&lock);
    return code;
}

// Every call begins with this: the state is fresh, NVML is initialised, and no failure is injected for it.
#define ENTER(gpu)                                  \
    do {                                            \
        nvmlReturn code_ = entered((gpu), __func__); \
        if (code_) return code_;                    \
    } while (0)

static nvmlReturn read_u64(const struct device *gpu, const char *key, u64 *out) {
    pthread_mutex_lock(&lock);
    const char *text = device_value(gpu, key);
    if (text) *out = strtoull(text, NULL, 0);
    pthread_mutex_unlock(&lock);
    return text ? SUCCESS : NOT_SUPPORTED;
}

static nvmlReturn read_u32(const struct device *gpu, const char *key, u32 *out) {
    u64 wide = 0;
    nvmlReturn code = read_u64(gpu, key, &wide);
    if (!code) *out = (u32)wide;
    return code;
}

static u64 u64_or_zero(const struct device *gpu, const char *key) {
    u64 out = 0;
    read_u64(gpu, key, &out);
    return out;
}

static nvmlReturn read_text(const struct device *gpu, const char *key, char *out, u32 size) {
    pthread_mutex_lock(&lock);
    const char *text = gpu ? device_value(gpu, key) : value_of(key);
    nvmlReturn code = !text ? NOT_SUPPORTED : strlen(text) < size ? SUCCESS : INSUFFICIENT_SIZE;
    if (!code) strcpy(out, text);
    pthread_mutex_unlock(&lock);
    return code;
}

static const char *numbered(char *buffer, const char *stem, u32 number) {
    snprintf(buffer, KEY_BYTES, "%s.%u", stem, number);
    return buffer;
}

// A call that hands out one number under one key.
#define NUMBER(symbol, type, reader, key) \
    nvmlReturn symbol(struct device *gpu, type *out) { ENTER(gpu); return reader(gpu, key, out); }
// The same, with the key's last part given by the caller: a clock, a direction, a threshold.
#define NUMBERED(symbol, stem)                                       \
    nvmlReturn symbol(struct device *gpu, u32 which, u32 *out) {     \
        ENTER(gpu);                                                  \
        char key[KEY_BYTES];                                         \
        return read_u32(gpu, numbered(key, stem, which), out);       \
    }

// ---- library and system -----------------------------------------------------------------------------------------

nvmlReturn nvmlInitWithFlags(u32 flags) {
    (void)flags;
    pthread_mutex_lock(&lock);
    load();
    nvmlReturn code = injected(NULL, "nvmlInit");
    if (!code) {
        users++;
        for (u32 i = 0; i < MAX_GPUS; i++) devices[i].index = i;
    }
    pthread_mutex_unlock(&lock);
    return code;
}
nvmlReturn nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
nvmlReturn nvmlShutdown(void) {
    if (!users) return UNINITIALIZED;
    users--;
    return SUCCESS;
}
const char *nvmlErrorString(nvmlReturn code) {
    static char text[40];
    snprintf(text, sizeof text, "stub error %u", code);
    return text;
}
nvmlReturn nvmlSystemGetDriverVersion(char *out, u32 size) { ENTER(NULL); return read_text(NULL, "driver", out, size); }
nvmlReturn nvmlSystemGetNVMLVersion(char *out, u32 size) { ENTER(NULL); return read_text(NULL, "nvml", out, size); }

// ---- devices ----------------------------------------------------------------------------------------------------

static u32 gpu_count(void) {
    pthread_mutex_lock(&lock);
    const char *text = value_of("count");
    u32 count = text ? (u32)atoi(text) : 0;
    pthread_mutex_unlock(&lock);
    return count < MAX_GPUS ? count : MAX_GPUS;
}
nvmlReturn nvmlDeviceGetCount_v2(u32 *out) { ENTER(NULL); *out = gpu_count(); return SUCCESS; }
nvmlReturn nvmlDeviceGetHandleByIndex_v2(u32 index, struct device **out) {
    ENTER(NULL);
    if (index >= gpu_count()) return INVALID_ARGUMENT;
    *out = &devices[index];
    return entered(*out, "nvmlDeviceGetHandleByIndex_v2");
}
nvmlReturn nvmlDeviceGetHandleByUUID(const char *uuid, struct device **out) {
    ENTER(NULL);
    char own[KEY_BYTES];
    for (u32 i = 0; i < gpu_count(); i++)
        if (!read_text(&devices[i], "uuid", own, sizeof own) && !strcmp(own, uuid)) {
            *out = &devices[i];
            return SUCCESS;
        }
    return NOT_FOUND;
}
nvmlReturn nvmlDeviceGetIndex(struct device *gpu, u32 *out) { ENTER(gpu); *out = gpu->index; return SUCCESS; }
nvmlReturn nvmlDeviceGetName(struct device *gpu, char *out, u32 size) { ENTER(gpu); return read_text(gpu, "name", out, size); }
nvmlReturn nvmlDeviceGetUUID(struct device *gpu, char *out, u32 size) { ENTER(gpu); return read_text(gpu, "uuid", out, size); }
nvmlReturn nvmlDeviceGetSerial(struct device *gpu, char *out, u32 size) { ENTER(gpu); return read_text(gpu, "serial", out, size); }
nvmlReturn nvmlDeviceGetCudaComputeCapability(struct device *gpu, int *major, int *minor) {
    ENTER(gpu);
    u32 high = 0;
    nvmlReturn code = read_u32(gpu, "cc.major", &high);
    *major = (int)high;
    *minor = (int)u64_or_zero(gpu, "cc.minor");
    return code;
}

struct pci { char legacy_id[16]; u32 domain, bus, device, device_id, subsystem_id; char id[32]; };
nvmlReturn nvmlDeviceGetPciInfo_v3(struct device *gpu, struct pci *out) {
    ENTER(gpu);
    memset(out, 0, sizeof *out);
    nvmlReturn code = read_text(gpu, "pci.id", out->id, sizeof out->id);
    if (!code) snprintf(out->legacy_id, sizeof out->legacy_id, "%.15s", out->id);
    return code;
}

// ---- load, memory, power, heat ----------------------------------------------------------------------------------

struct utilization { u32 gpu, memory; };
nvmlReturn nvmlDeviceGetUtilizationRates(struct device *gpu, struct utilization *out) {
    ENTER(gpu);
    nvmlReturn code = read_u32(gpu, "util.gpu", &out->gpu);
    return code ? code : read_u32(gpu, "util.mem", &out->memory);
}

struct memory { u64 total, free, used; };
nvmlReturn nvmlDeviceGetMemoryInfo(struct device *gpu, struct memory *out) {
    ENTER(gpu);
    nvmlReturn code = read_u64(gpu, "mem.total", &out->total);
    if (code) return code;
    out->used = u64_or_zero(gpu, "mem.used") + u64_or_zero(gpu, "mem.reserved");
    out->free = out->total - out->used;
    return SUCCESS;
}
struct memory_v2 { u32 version; u64 total, reserved, free, used; };
nvmlReturn nvmlDeviceGetMemoryInfo_v2(struct device *gpu, struct memory_v2 *out) {
    ENTER(gpu);
    if (out->version != 0x02000028) return VERSION_MISMATCH;
    nvmlReturn code = read_u64(gpu, "mem.total", &out->total);
    if (code) return code;
    out->used = u64_or_zero(gpu, "mem.used");
    out->reserved = u64_or_zero(gpu, "mem.reserved");
    out->free = out->total - out->used - out->reserved;
    return SUCCESS;
}

NUMBER(nvmlDeviceGetPowerUsage, u32, read_u32, "power")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, u32, read_u32, "power.limit")
NUMBER(nvmlDeviceGetPowerManagementLimit, u32, read_u32, "power.limit")
NUMBER(nvmlDeviceGetTotalEnergyConsumption, u64, read_u64, "energy")
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, u64, read_u64, "reasons")
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, u64, read_u64, "reasons")
NUMBER(nvmlDeviceGetFanSpeed, u32, read_u32, "fan")
NUMBERED(nvmlDeviceGetClockInfo, "clock")
NUMBERED(nvmlDeviceGetMaxClockInfo, "maxclock")
NUMBERED(nvmlDeviceGetPcieThroughput, "pcie")
NUMBERED(nvmlDeviceGetTemperatureThreshold, "threshold")
NUMBERED(nvmlDeviceGetNvLinkState, "nvlink")

nvmlReturn nvmlDeviceGetTemperature(struct device *gpu, u32 sensor, u32 *out) {
    ENTER(gpu);
    return sensor ? INVALID_ARGUMENT : read_u32(gpu, "temp", out);
}
struct temperature { u32 version, sensor; int degrees; };
nvmlReturn nvmlDeviceGetTemperatureV(struct device *gpu, struct temperature *out) {
    ENTER(gpu);
    if (out->version != 0x100000C) return VERSION_MISMATCH;
    return read_u32(gpu, "temp", (u32 *)&out->degrees);
}
struct margin { u32 version; int degrees; };
nvmlReturn nvmlDeviceGetMarginTemperature(struct device *gpu, struct margin *out) {
    ENTER(gpu);
    if (out->version != 0x1000008) return VERSION_MISMATCH;
    return read_u32(gpu, "temp.margin", (u32 *)&out->degrees);
}

// ---- health -----------------------------------------------------------------------------------------------------

nvmlReturn nvmlDeviceGetEccMode(struct device *gpu, u32 *now, u32 *pending) {
    ENTER(gpu);
    nvmlReturn code = read_u32(gpu, "eccmode", now);
    *pending = *now;
    return code;
}
nvmlReturn nvmlDeviceGetTotalEccErrors(struct device *gpu, u32 kind, u32 counter, u64 *out) {
    ENTER(gpu);
    char key[KEY_BYTES];
    snprintf(key, sizeof key, "ecc.%u.%u", kind, counter);
    return read_u64(gpu, key, out);
}
struct sram { u32 version; u64 counts[11]; u32 exceeded; };
nvmlReturn nvmlDeviceGetSramEccErrorStatus(struct device *gpu, struct sram *out) {
    ENTER(gpu);
    if (out->version != 0x1000068) return VERSION_MISMATCH;
    memset(out->counts, 0, sizeof out->counts);
    out->counts[0] = u64_or_zero(gpu, "sram.uncorrectable");
    return read_u32(gpu, "sram.exceeded", &out->exceeded);
}
nvmlReturn nvmlDeviceGetRemappedRows(struct device *gpu, u32 *correctable, u32 *uncorrectable, u32 *pending, u32 *failure) {
    ENTER(gpu);
    nvmlReturn code = read_u32(gpu, "remap.cor", correctable);
    *uncorrectable = (u32)u64_or_zero(gpu, "remap.unc");
    *pending = (u32)u64_or_zero(gpu, "remap.pending");
    *failure = (u32)u64_or_zero(gpu, "remap.failure");
    return code;
}
struct histogram { u32 max, high, partial, low, none; };
nvmlReturn nvmlDeviceGetRowRemapperHistogram(struct device *gpu, struct histogram *out) {
    ENTER(gpu);
    memset(out, 0, sizeof *out);
    return read_u32(gpu, "remap.banks", &out->max);
}
nvmlReturn nvmlDeviceGetRetiredPages(struct device *gpu, u32 cause, u32 *count, u64 *pages) {
    ENTER(gpu);
    char key[KEY_BYTES];
    u32 have = 0, room = *count;
    nvmlReturn code = read_u32(gpu, numbered(key, "retired", cause), &have);
    if (code) return code;
    *count = have;
    for (u32 i = 0; pages && i < have && i < room; i++) pages[i] = 0x1000ull * (i + 1);
    return have > room || (have && !pages) ? INSUFFICIENT_SIZE : SUCCESS;
}
nvmlReturn nvmlDeviceGetMigMode(struct device *gpu, u32 *now, u32 *pending) {
    ENTER(gpu);
    nvmlReturn code = read_u32(gpu, "mig", now);
    *pending = *now;
    return code;
}
NUMBER(nvmlDeviceGetMaxMigDeviceCount, u32, read_u32, "mig.max")

// ---- processes: the caller asks for the count first, with room for none -----------------------------------------

struct process { u32 pid; u64 used_bytes; u32 gpu_instance, compute_instance; };
nvmlReturn nvmlDeviceGetComputeRunningProcesses_v3(struct device *gpu, u32 *count, struct process *out) {
    ENTER(gpu);
    u32 room = *count, have = 0;
    char key[KEY_BYTES], text[VALUE_BYTES];
    for (; !read_text(gpu, numbered(key, "proc", have), text, sizeof text); have++) {
        if (!out || have >= room) continue;
        memset(&out[have], 0xff, sizeof out[have]);  // all ones: "not available"
        sscanf(text, "%u,%llu", &out[have].pid, &out[have].used_bytes);
    }
    *count = have;
    return have && (!out || room < have) ? INSUFFICIENT_SIZE : SUCCESS;
}

// ---- field values: each entry fails or succeeds for itself ------------------------------------------------------

struct field { u32 id, scope; long long at_us, latency_us; u32 type, code; union { double d; u64 u; } value; };
enum { TYPE_DOUBLE = 0, TYPE_U64 = 3 };
nvmlReturn nvmlDeviceGetFieldValues(struct device *gpu, int count, struct field *fields) {
    ENTER(gpu);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; i < count; i++) {
        char key[KEY_BYTES], text[VALUE_BYTES];
        struct field *field = &fields[i];
        field->at_us = now.tv_sec * 1000000LL + now.tv_nsec / 1000;
        field->latency_us = 10;
        field->code = read_text(gpu, numbered(key, "fi", field->id), text, sizeof text);
        if (field->code) continue;
        field->type = strchr(text, '.') ? TYPE_DOUBLE : TYPE_U64;
        if (field->type == TYPE_DOUBLE) field->value.d = atof(text);
        else field->value.u = strtoull(text, NULL, 0);
    }
    return SUCCESS;
}

// ---- events -----------------------------------------------------------------------------------------------------

enum { POLL_MS = 5 };
struct event_set { long offset; u64 mask[MAX_GPUS]; };
struct event { struct device *gpu; u64 type, data; u32 gpu_instance, compute_instance; };

NUMBER(nvmlDeviceGetSupportedEventTypes, u64, read_u64, "events")
nvmlReturn nvmlEventSetCreate(struct event_set **out) {
    ENTER(NULL);
    const char *path = getenv("NVML_STUB_EVENTS");
    struct stat file;
    *out = calloc(1, sizeof **out);
    if (path && !stat(path, &file)) (*out)->offset = file.st_size;
    return SUCCESS;
}
nvmlReturn nvmlEventSetFree(struct event_set *set) {
    free(set);
    return SUCCESS;
}
nvmlReturn nvmlDeviceRegisterEvents(struct device *gpu, u64 mask, struct event_set *set) {
    ENTER(gpu);
    if (mask & ~u64_or_zero(gpu, "events")) return NOT_SUPPORTED;
    set->mask[gpu->index] |= mask;
    return SUCCESS;
}
static int next_event(struct event_set *set, struct event *out) {
    const char *path = getenv("NVML_STUB_EVENTS");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return 0;
    char line[LINE_BYTES];
    int found = 0;
    fseek(file, set->offset, SEEK_SET);
    while (!found && fgets(line, sizeof line, file) && strchr(line, '\n')) {
        u32 index;
        u64 type, data;
        set->offset = ftell(file);
        if (sscanf(line, "%u,%llu,%llu", &index, &type, &data) != 3 || index >= MAX_GPUS) continue;
        if (!(set->mask[index] & type)) continue;
        *out = (struct event){&devices[index], type, data, ~0u, ~0u};
        found = 1;
    }
    fclose(file);
    return found;
}
nvmlReturn nvmlEventSetWait_v2(struct event_set *set, struct event *out, u32 timeout_ms) {
    ENTER(NULL);
    for (u32 waited_ms = 0;; waited_ms += POLL_MS) {
        if (next_event(set, out)) return SUCCESS;
        if (waited_ms >= timeout_ms) return TIMED_OUT;
        usleep(POLL_MS * 1000);
    }
}

// ---- GPU performance monitoring (Hopper and later) --------------------------------------------------------------

struct gpm_support { u32 version, supported; };
struct gpm_sample { struct device *gpu; u64 reserved; };
struct gpm_metric { u32 id, code; double value; const char *short_name, *long_name, *unit; };
struct gpm_request { u32 version, count; struct gpm_sample *first, *second; struct gpm_metric metrics[]; };

nvmlReturn nvmlGpmQueryDeviceSupport(struct device *gpu, struct gpm_support *out) {
    ENTER(gpu);
    out->supported = (u32)u64_or_zero(gpu, "gpm");
    return SUCCESS;
}
nvmlReturn nvmlGpmSampleAlloc(struct gpm_sample **out) { ENTER(NULL); *out = calloc(1, sizeof **out); return SUCCESS; }
nvmlReturn nvmlGpmSampleFree(struct gpm_sample *sample) {
    free(sample);
    return SUCCESS;
}
nvmlReturn nvmlGpmSampleGet(struct device *gpu, struct gpm_sample *sample) {
    ENTER(gpu);
    sample->gpu = gpu;
    return u64_or_zero(gpu, "gpm") ? SUCCESS : NOT_SUPPORTED;
}
nvmlReturn nvmlGpmMetricsGet(struct gpm_request *request) {
    ENTER(NULL);
    if (!request->second || !request->second->gpu) return INVALID_ARGUMENT;
    for (u32 i = 0; i < request->count; i++) {
        struct gpm_metric *metric = &request->metrics[i];
        char key[KEY_BYTES], text[VALUE_BYTES];
        metric->code = read_text(request->second->gpu, numbered(key, "gpm", metric->id), text, sizeof text);
        metric->value = metric->code ? 0 : atof(text);
        metric->short_name = metric->long_name = "stub";
        metric->unit = "%";
    }
    return SUCCESS;
}
