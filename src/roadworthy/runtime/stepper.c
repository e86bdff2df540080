/* One step of a compiled policy as one call from Python: the caller's arrays in, new arrays out.
 * runtime/c_frame.py compiles it against the headers of this Python and of this NumPy. */
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>
#include <stddef.h>

typedef void (*policy_run)(void *const *places, int rows);

typedef struct {
    PyObject *name;
    PyArrayObject *buffer;
} port;

typedef struct {
    char *to;
    const char *from;
    size_t length;
} move;

/* A policy in wasmtime's sandbox: `call` of its C API, with fresh fuel each time. What goes in and
 * comes out is copied to and from the sandbox' own memory. */
typedef struct {
    void *(*refuel)(void *context, uint64_t fuel);
    void *(*call)(void *context, const void *function, void *values, size_t count, void **trap);
    void *context, *function, *values, **trap;
    uint64_t fuel;
    PyObject *failed; /* raises what an error or a trap stands for; NULL: there is no sandbox */
    Py_ssize_t given, all;
    move *moves; /* those into the sandbox, then those out of it */
} sandbox;

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *keep; /* whatever the addresses point to */
    policy_run run;
    void *const *places;
    int rows;
    int is_short; /* others do not get a turn while it runs: handing over takes longer */
    int every, left; /* steps from one look for NaN to the next, and until the next */
    sandbox box;
    int32_t *tick; /* none where the policy decides at every tick */
    int32_t decimation;
    Py_ssize_t inputs, outputs, memories;
    port *ports;    /* inputs, then outputs */
    move *moves; /* for each memory: where the next step reads it, and where this one wrote it */
    PyArrayObject **memory; /* what the next step reads */
} stepper;

static int has_nan(PyArrayObject *array)
{
    const npy_intp count = PyArray_SIZE(array);
    const void *const data = PyArray_DATA(array);
    npy_intp i;
    int found = 0;
    switch (PyArray_TYPE(array)) {
    case NPY_FLOAT:
        for (i = 0; i < count; i++) {
            found |= ((const float *)data)[i] != ((const float *)data)[i];
        }
        break;
    case NPY_DOUBLE:
        for (i = 0; i < count; i++) {
            found |= ((const double *)data)[i] != ((const double *)data)[i];
        }
        break;
    case NPY_HALF:
        for (i = 0; i < count; i++) {
            found |= (((const uint16_t *)data)[i] & 0x7fff) > 0x7c00;
        }
        break;
    default:
        break;
    }
    return found;
}

/* Whether this step is one that looks for NaN, and there is one. */
static int finds_nan(stepper *own)
{
    Py_ssize_t i;
    if (--own->left > 0) {
        return 0;
    }
    own->left = own->every;
    for (i = 0; i < own->inputs; i++) {
        if (has_nan(own->ports[i].buffer)) {
            return 1;
        }
    }
    for (i = 0; i < own->memories; i++) {
        if (has_nan(own->memory[i])) {
            return 1;
        }
    }
    return 0;
}

static void moved(const move *moves, Py_ssize_t count)
{
    for (; count > 0; count--, moves++) {
        memcpy(moves->to, moves->from, moves->length);
    }
}

/* One step; an error of the sandbox, or nothing. Memory moves on where it went well. */
static void *stepped(const stepper *own)
{
    const sandbox *box = &own->box;
    if (box->failed == NULL) {
        own->run(own->places, own->rows);
    } else {
        void *error;
        moved(box->moves, box->given);
        error = box->refuel(box->context, box->fuel);
        if (error == NULL) {
            error = box->call(box->context, box->function, box->values, 2, box->trap);
        }
        if (error != NULL || *box->trap != NULL) {
            return error;
        }
        moved(box->moves + box->given, box->all - box->given);
    }
    moved(own->moves, own->memories);
    return NULL;
}

/* 1: the value is in its buffer; 0: it is not what the buffer holds, and nothing was raised. */
static int loaded(const port *to, PyObject *value)
{
    PyArrayObject *array = (PyArrayObject *)value, *buffer = to->buffer;
    const int axes = PyArray_NDIM(buffer);
    if (value == (PyObject *)buffer) {
        return 1;
    }
    if (Py_TYPE(value) != &PyArray_Type || PyArray_DESCR(array) != PyArray_DESCR(buffer)
        || PyArray_NDIM(array) != axes
        || memcmp(PyArray_DIMS(array), PyArray_DIMS(buffer), (size_t)axes * sizeof(npy_intp))) {
        return 0;
    }
    if (PyArray_IS_C_CONTIGUOUS(array)) {
        memmove(PyArray_DATA(buffer), PyArray_DATA(array), (size_t)PyArray_NBYTES(buffer));
        return 1;
    }
    return PyArray_CopyInto(buffer, array) == 0 ? 1 : -1;
}

/* A new array like a buffer, with what is in it: what PyArray_NewCopy gives, in half its time. */
static PyObject *copied(PyArrayObject *buffer)
{
    PyArray_Descr *kind = PyArray_DESCR(buffer);
    PyObject *copy;
    Py_INCREF(kind); /* which the new array takes */
    copy = PyArray_NewFromDescr(&PyArray_Type, kind, PyArray_NDIM(buffer), PyArray_DIMS(buffer),
        NULL, NULL, 0, NULL);
    if (copy != NULL) {
        memcpy(PyArray_DATA((PyArrayObject *)copy), PyArray_DATA(buffer),
            (size_t)PyArray_NBYTES(buffer));
    }
    return copy;
}

/* From a dict of inputs, or from what is in the buffers; None where the inputs do not fit there. */
static PyObject *step(PyObject *self, PyObject *const *arguments, size_t count, PyObject *names)
{
    stepper *own = (stepper *)self;
    PyObject *given, *results;
    void *error;
    Py_ssize_t i;
    if (PyVectorcall_NARGS(count) > 1 || names != NULL) {
        PyErr_SetString(PyExc_TypeError, "a step takes one dict, or nothing");
        return NULL;
    }
    if (PyVectorcall_NARGS(count) == 1) {
        given = arguments[0];
        if (!PyDict_CheckExact(given) || PyDict_GET_SIZE(given) != own->inputs) {
            Py_RETURN_NONE;
        }
        for (i = 0; i < own->inputs; i++) {
            PyObject *value = PyDict_GetItemWithError(given, own->ports[i].name);
            int fits = value == NULL ? (PyErr_Occurred() ? -1 : 0) : loaded(own->ports + i, value);
            if (fits < 0) {
                return NULL;
            }
            if (!fits) {
                Py_RETURN_NONE;
            }
        }
        if (finds_nan(own)) {
            Py_RETURN_NONE;
        }
    }
    if (own->is_short) {
        error = stepped(own);
    } else {
        Py_BEGIN_ALLOW_THREADS
        error = stepped(own);
        Py_END_ALLOW_THREADS
    }
    if (own->box.failed != NULL && (error != NULL || *own->box.trap != NULL)) {
        return PyObject_CallFunction(own->box.failed, "K", (unsigned long long)(uintptr_t)error);
    }
    if (own->tick != NULL) {
        *own->tick = (*own->tick + 1) % own->decimation;
    }
    results = PyDict_New();
    for (i = own->inputs; results != NULL && i < own->inputs + own->outputs; i++) {
        PyObject *copy = copied(own->ports[i].buffer);
        if (copy == NULL || PyDict_SetItem(results, own->ports[i].name, copy) < 0) {
            Py_CLEAR(results);
        }
        Py_XDECREF(copy);
    }
    return results;
}

static void freed(PyObject *self)
{
    stepper *own = (stepper *)self;
    PyMem_Free(own->ports);
    PyMem_Free(own->moves);
    PyMem_Free(own->memory);
    PyMem_Free(own->box.moves);
    Py_XDECREF(own->keep);
    Py_TYPE(self)->tp_free(self);
}

static PyTypeObject stepper_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "roadworthy.runtime.stepper.Stepper",
    .tp_basicsize = sizeof(stepper),
    .tp_dealloc = freed,
    .tp_vectorcall_offset = offsetof(stepper, call),
    .tp_call = PyVectorcall_Call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "One step of a compiled policy.",
};

static char *address(PyObject *array)
{
    return (char *)PyArray_DATA((PyArrayObject *)array);
}

static move move_of(PyObject *pair)
{
    PyObject *to = PyTuple_GET_ITEM(pair, 0), *from = PyTuple_GET_ITEM(pair, 1);
    return (move){address(to), address(from), (size_t)PyArray_NBYTES((PyArrayObject *)to)};
}

/* (refuel, call, context, function, values, trap, fuel, failed, into, out): see wasm_engine.py. */
static int boxed(sandbox *box, PyObject *parts)
{
    unsigned long long refuel, call, context, function, values, trap, fuel;
    PyObject *into, *out;
    Py_ssize_t i;
    if (parts == Py_None) {
        return 1;
    }
    if (!PyArg_ParseTuple(parts, "KKKKKKKOO!O!", &refuel, &call, &context, &function, &values,
            &trap, &fuel, &box->failed, &PyTuple_Type, &into, &PyTuple_Type, &out)) {
        return 0;
    }
    box->refuel = (void *(*)(void *, uint64_t))(uintptr_t)refuel;
    box->call = (void *(*)(void *, const void *, void *, size_t, void **))(uintptr_t)call;
    box->context = (void *)(uintptr_t)context;
    box->function = (void *)(uintptr_t)function;
    box->values = (void *)(uintptr_t)values;
    box->trap = (void **)(uintptr_t)trap;
    box->fuel = fuel;
    box->given = PyTuple_GET_SIZE(into);
    box->all = box->given + PyTuple_GET_SIZE(out);
    box->moves = PyMem_Calloc((size_t)box->all + 1, sizeof(move));
    if (box->moves == NULL) {
        PyErr_NoMemory();
        return 0;
    }
    for (i = 0; i < box->all; i++) {
        PyObject *pairs = i < box->given ? into : out;
        box->moves[i] = move_of(PyTuple_GET_ITEM(pairs, i < box->given ? i : i - box->given));
    }
    return 1;
}

/* stepper((run, places, rows), box, is_short, every, ports, inputs, moves, tick, decimation, kept):
 * see c_frame.py. */
static PyObject *made(PyObject *module, PyObject *arguments)
{
    unsigned long long run, places;
    PyObject *box, *ports, *moves, *tick, *kept;
    Py_ssize_t inputs, i;
    int rows, is_short, every, decimation;
    stepper *own;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "(KKi)OiiO!nO!OiO", &run, &places, &rows, &box, &is_short,
            &every, &PyTuple_Type, &ports, &inputs, &PyTuple_Type, &moves, &tick, &decimation,
            &kept)) {
        return NULL;
    }
    own = PyObject_New(stepper, &stepper_type);
    if (own == NULL) {
        return NULL;
    }
    own->call = step;
    own->run = (policy_run)(uintptr_t)run;
    own->places = (void *const *)(uintptr_t)places;
    own->rows = rows;
    own->is_short = is_short;
    own->every = own->left = every;
    own->tick = tick == Py_None ? NULL : (int32_t *)(void *)address(tick);
    own->decimation = decimation;
    own->inputs = inputs;
    own->outputs = PyTuple_GET_SIZE(ports) - inputs;
    own->memories = PyTuple_GET_SIZE(moves);
    own->keep = Py_NewRef(arguments);
    own->ports = PyMem_Calloc((size_t)PyTuple_GET_SIZE(ports) + 1, sizeof(port));
    own->moves = PyMem_Calloc((size_t)own->memories + 1, sizeof(move));
    own->memory = PyMem_Calloc((size_t)own->memories + 1, sizeof(PyArrayObject *));
    own->box = (sandbox){0};
    if (own->ports == NULL || own->moves == NULL || own->memory == NULL) {
        Py_DECREF(own);
        return PyErr_NoMemory();
    }
    for (i = 0; i < PyTuple_GET_SIZE(ports); i++) {
        PyObject *pair = PyTuple_GET_ITEM(ports, i);
        own->ports[i].name = PyTuple_GET_ITEM(pair, 0);
        own->ports[i].buffer = (PyArrayObject *)PyTuple_GET_ITEM(pair, 1);
    }
    for (i = 0; i < own->memories; i++) {
        PyObject *pair = PyTuple_GET_ITEM(moves, i);
        own->moves[i] = move_of(pair);
        own->memory[i] = (PyArrayObject *)PyTuple_GET_ITEM(pair, 0);
    }
    if (!boxed(&own->box, box)) {
        Py_DECREF(own);
        return NULL;
    }
    return (PyObject *)own;
}

static PyMethodDef functions[] = {
    {"stepper", made, METH_VARARGS, "A policy's step over buffers that never move."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "stepper", NULL, -1, functions, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_stepper(void)
{
    import_array();
    if (PyType_Ready(&stepper_type) < 0) {
        return NULL;
    }
    return PyModule_Create(&definition);
}
